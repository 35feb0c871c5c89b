// CPU affinity of the threads that are not compute threads: those of communication and of checkpoints.
#pragma once

#include <string>

namespace weft {

/// The CPUs that the process was started with: '1' at place N where it may use CPU N, else '0'. It ends with
/// the last '1', and is empty where the system does not say.
std::string cpus_at_start();

/// Gives the calling thread the CPUs that the process was started with. OMP_PROC_BIND narrows the main thread
/// before main(), and threads made later inherit that: without this they would sit on the first compute
/// thread's core.
void reset_affinity();

}  // namespace weft
