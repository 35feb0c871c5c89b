// CPU affinity of the threads that are not compute threads: those of communication and of checkpoints.
#pragma once

namespace weft {

/// Gives the calling thread the CPUs that the process was started with. OMP_PROC_BIND narrows the main thread
/// before main(), and threads made later inherit that: without this they would sit on the first compute
/// thread's core.
void reset_affinity();

}  // namespace weft
