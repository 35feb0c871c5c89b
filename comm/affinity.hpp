// CPU affinity of the communication thread.
#pragma once

namespace weft::comm::detail {

/// Gives the calling thread the CPUs that the process was started with. OMP_PROC_BIND narrows the main thread
/// before main(), and threads made later inherit that: without this the communication thread would sit on the
/// first compute thread's core.
void reset_affinity();

}  // namespace weft::comm::detail
