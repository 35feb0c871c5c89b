// What every back end must do, checked against straightforward definitions. All ranks of the channel call the
// same check.
#pragma once

#include <string>

#include "comm/channel.hpp"

namespace weft::test {

/// Waits with a deadline: a hang fails the test under `what`'s name and ends the process.
void wait(const comm::Event& event, const std::string& what);

void check_all_gather(comm::Channel& channel);
void check_all_to_all(comm::Channel& channel);
void check_reduce_scatter(comm::Channel& channel);
void check_all_reduce(comm::Channel& channel);
void check_broadcast(comm::Channel& channel);
void check_send_recv(comm::Channel& channel);
/// First in, first out; an operation starts when its dependency is done, and not before.
void check_order(comm::Channel& channel);
void check_group(comm::Channel& channel);
/// Counters equal their closed forms.
void check_counters(comm::Channel& channel);
/// A channel whose head waits for a dependency does not hold up another one.
void check_independence(comm::Channel& blocked, comm::Channel& free);

/// Gathers and reduce-scatters through the window of this rank's team: results, bits, and what crosses hosts.
/// `hosts` are those of the channel.
void check_window(comm::Channel& channel, comm::Window& window, int hosts);

/// Tables of which ranks use some rows: results, bits, and that nothing else is sent.
void check_rows(comm::Channel& channel);

/// All of the above that need one channel.
void check_everything(comm::Channel& channel);

}  // namespace weft::test
