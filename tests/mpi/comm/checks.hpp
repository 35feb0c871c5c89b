// Checks of what every back end must do, by straightforward definitions. All ranks of the channel call the
// same check.
#pragma once

#include <string>

#include "comm/channel.hpp"

namespace weft::test {

/// Waits with a deadline: a hang fails the test under the name `what`, and ends the process.
void wait(const comm::Event& event, const std::string& what);

void check_all_gather(comm::Channel& channel);
void check_all_to_all(comm::Channel& channel);
void check_reduce_scatter(comm::Channel& channel);
void check_all_reduce(comm::Channel& channel);
void check_broadcast(comm::Channel& channel);
void check_send_recv(comm::Channel& channel);
/// Checks that calls end in order, and that one starts when its dependency is done, and not before.
void check_order(comm::Channel& channel);
void check_group(comm::Channel& channel);
/// Checks that counters equal their closed forms.
void check_counters(comm::Channel& channel);
/// Checks that a channel whose head waits for a dependency does not hold up another one.
void check_independence(comm::Channel& blocked, comm::Channel& free);

/// Checks gathers and reduce-scatters through the window of this rank's team: results, bits, and what crosses
/// hosts. `hosts` are those of the channel.
void check_window(comm::Channel& channel, comm::Window& window, int hosts);

/// Checks gathers and reduce-scatters that read the parts of a window, which has `near` of the channel's
/// ranks and may have others: results, bits, and what is sent.
void check_parts(comm::Channel& channel, comm::Window& window, int near);

/// Checks tables of which ranks use some rows: results, bits, and that nothing else is sent.
void check_rows(comm::Channel& channel, std::int64_t rows, int rounds);

/// Makes all of the checks above that need one channel.
void check_everything(comm::Channel& channel);

}  // namespace weft::test
