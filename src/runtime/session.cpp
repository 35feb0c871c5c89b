#include "runtime/session.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

#include "base/check.hpp"
#include "base/device.hpp"
#include "base/log.hpp"
#include "base/per_lane.hpp"
#include "comm/agree.hpp"
#include "compile/programs.hpp"
#include "kernels/region.hpp"
#include "runtime/same.hpp"

namespace weft::runtime {

Session::Session(const Deck& deck, comm::World& world)
    : world_(world),
      mesh_(resolve_mesh(deck, world.size())),
      stage_places_{mesh_.size(pipe_axis), folds(deck.pipeline.schedule)},
      shards_(mesh_.size(data_axis)),
      shard_(mesh_.coordinate(world.rank(), mesh_.axis(data_axis))),
      matmuls_(deck.precision.f32_products) {
  std::vector<Opening> openings;
  const auto add = [&](std::string_view axis, Lane lane, const char* name) {
    openings.push_back({mesh_.group(world.rank(), mesh_.axis(axis)), lane, name});
  };
  if (shards_ > 1) {
    add(data_axis, Lane::gather, "gather.data");
    add(data_axis, Lane::reduce, "reduce.data");
  }
  if (mesh_.size(replica_axis) > 1) {
    replica_ = mesh_.coordinate(world.rank(), mesh_.axis(replica_axis));
    add(replica_axis, Lane::replica, "replica");
  }
  if (mesh_.size(tensor_axis) > 1) {
    add(tensor_axis, Lane::tensor, "tensor");
    add_copies(static_cast<int>(deck.model.kv_heads), openings);
  }
  if (mesh_.size(context_axis) > 1) add(context_axis, Lane::context, "context");
  if (mesh_.size(pipe_axis) > 1) {
    add(pipe_axis, Lane::pipe, "pipe");
    add_links(openings);
  }
  open(std::move(openings));
  find_teams(deck);
  decide_peer_reads(deck);
  decide_capture(deck);
}

void Session::open(std::vector<Opening> openings) {
  comm::ChannelOptions options;
  for (const Opening& opening : openings) options.open_at_once.push_back(opening.lane);
  for (Opening& one : openings) {
    comm::Channel& channel =
        channels_.add(world_.open(std::move(one.ranks), one.lane, std::move(one.name), options));
    log_.observe(channel);
    if (!channel.ends_seen() && !runs_) runs_ = world_.open_record("plans");
  }
}

/// Adds the channel over the neighbours that have the same heads of keys and values, where these are some of
/// the tensor axis.
void Session::add_copies(int kv_heads, std::vector<Opening>& openings) const {
  const std::vector<int> all = mesh_.group(rank(), mesh_.axis(tensor_axis));
  const int copies = static_cast<int>(all.size()) / kv_heads;
  if (copies <= 1 || kv_heads == 1) return;
  const auto first = all.begin() + tensor_rank() / copies * copies;
  openings.push_back({{first, first + copies}, Lane::copies, "copies"});
}

/// Adds the channels to the neighbours on the pipe, which is a ring because a rank may have several stages.
/// What goes out on one rank comes in on the next.
void Session::add_links(std::vector<Opening>& openings) const {
  const std::vector<int> pipe = mesh_.group(rank(), mesh_.axis(pipe_axis));
  const auto places = static_cast<int>(pipe.size());
  for (int place = 0; place < places; ++place) {  // in the same order on all ranks
    const int next = (place + 1) % places;
    const bool sends = place == pipe_rank(), receives = next == pipe_rank();
    if (!sends && !receives) continue;
    std::vector<int> ends{pipe[static_cast<std::size_t>(place)], pipe[static_cast<std::size_t>(next)]};
    std::sort(ends.begin(), ends.end());
    const std::string name = fmt::format("pipe.{}-{}", place, next);
    openings.push_back({ends, sends ? Lane::to_next : Lane::from_previous, name + ".to_next"});
    openings.push_back({ends, sends ? Lane::from_next : Lane::to_previous, name + ".to_previous"});
  }
}

void Session::decide_capture(const Deck& deck) {
  const bool wanted = deck.schedule.cuda_graph == CudaGraph::automatic && !kernels::tool_loaded();
  if (comm::on_all_ranks(world_, wanted)) capture_ = CudaGraph::automatic;
}

/// Finds how many ranks the teams have. The numbers are the same on all ranks, because they make the same
/// plan. One window holds both teams of a rank, so a team of the tensor axis must have all its neighbours
/// along data on this host, too.
void Session::find_teams(const Deck& deck) {
  data_team_ = tensor_team_ = {rank()};
  const bool wanted = compile::shares_memory(deck);
  if (wanted && shards_ > 1) data_team_ = world_.team(mesh_.group(rank(), mesh_.axis(data_axis)));
  drop_uneven(data_team_, /*good=*/true);
  std::vector<int> sharing{rank()};
  if (wanted && mesh_.size(context_axis) > 1)
    sharing = world_.team(mesh_.group(rank(), mesh_.axis(context_axis)));
  drop_uneven(sharing, /*good=*/true);
  context_team_ = static_cast<int>(sharing.size());
  if (wanted && mesh_.size(tensor_axis) > 1)
    tensor_team_ = world_.team(mesh_.group(rank(), mesh_.axis(tensor_axis)));
  const std::vector<int> both = window_ranks();
  drop_uneven(tensor_team_, std::all_of(both.begin(), both.end(), [&](int r) {
                return world_.hosts()[static_cast<std::size_t>(r)] == world_.host();
              }));
  set_teams();
}

/// Leaves this rank alone in the team unless it is good, and has as many ranks, everywhere.
void Session::drop_uneven(std::vector<int>& team, bool good) {
  const auto size = static_cast<double>(team.size());
  std::array<double, 3> seen{size, -size, good ? 0.0 : 1.0};
  world_.all_reduce_max(seen);
  if (seen[0] != -seen[1] || seen[2] > 0) team = {rank()};
}

/// The ranks of a context axis are in the groups of data, so their teams are part of those.
void Session::set_teams() {
  mesh_.set_teams({.data = static_cast<int>(data_team_.size()),
                   .context = data_team_.size() > 1 ? context_team_ : 1,
                   .tensor = static_cast<int>(tensor_team_.size()),
                   .peer_reads = peer_reads_});
}

/// The ranks of the window: a row of this rank's team along data for each rank of its team along tensor.
std::vector<int> Session::window_ranks() const {
  std::vector<int> ranks;
  for (const int along_tensor : tensor_team_)
    for (const int along_data : data_team_) ranks.push_back(along_tensor + along_data - rank());
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

/// Whether the plan of any stage shares memory.
bool Session::wants_window(exec::Memory::Plans plans) {
  const auto shares = [](const plan::Plan* plan) { return plan->shares_memory(); };
  return !comm::on_all_ranks(world_, std::none_of(plans.begin(), plans.end(), shares));
}

exec::SharedMemory Session::open_window(exec::Memory::Plans plans) {
  const auto place = [&](const std::vector<int>& team) {
    return static_cast<int>(std::find(team.begin(), team.end(), rank()) - team.begin());
  };
  exec::SharedMemory shared;
  shared.team = place(tensor_team_);
  shared.teams = static_cast<int>(tensor_team_.size());
  shared.member = place(data_team_);
  shared.members = static_cast<int>(data_team_.size());
  shared.window = world_.share(window_ranks(), exec::Memory::window_sizes(plans, shared.teams));
  if (!comm::on_all_ranks(world_, shared.window != nullptr)) shared.window.reset();
  return shared;
}

/// Gives up the team that matters less, for want of memory that the ranks of a host could share.
void Session::give_up_a_team() {
  const bool of_tensor = tensor_team_.size() > 1;
  (of_tensor ? tensor_team_ : data_team_).assign(1, rank());
  if (rank() == 0)
    log::warn(
        "a host gives its ranks {} shared memory (see df /dev/shm): {}",
        data_team_.size() > 1 ? "too little" : "no",
        of_tensor ? "those of a tensor axis send each other messages" : "each gathers parameters of its own");
  set_teams();
}

void Session::reserve(const MakePlans& make_plans) {
  const bool without_scratch = peer_reads_;
  take_memory(make_plans);
  if (without_scratch && !peer_reads_) {  // but messages need it
    give_memory_back();
    take_memory(make_plans);
  }
  if (memory_.window() != nullptr) share_channels(*memory_.window());
}

void Session::take_memory(const MakePlans& make_plans) {
  std::vector<const plan::Plan*> plans = make_plans();
  exec::SharedMemory shared;
  while (wants_window(plans)) {
    shared = open_window(plans);
    if (shared.window) break;
    give_up_a_team();
    plans = make_plans();
  }
  bool suitable = true;  // whether channels can register the memory
  comm::agree(world_, [&] {
    memory_.reserve(plans, std::move(shared), [&](std::size_t bytes) {
      auto memory = world_.allocate(bytes);
      suitable = suitable && (memory != nullptr || bytes == 0);
      return memory;
    });
  });
  suitable = comm::on_all_ranks(world_, suitable);
  if (suitable) register_memory();
  show_memory(suitable);
}

/// Frees the memory on all ranks. None of them frees what another one has mapped, and none looks for free
/// memory before those that share its device have returned theirs.
void Session::give_memory_back() {
  for (const Lane lane : communication_lanes)
    if (channel(lane) != nullptr) channel(lane)->forget_memory();
  world_.barrier();
  memory_ = exec::Memory();
  world_.barrier();
}

/// Registers the memory with the channels whose ranks have one plan, and so each operand at the same place of
/// their memory. All ranks do so or none does: NVIDIA leaves it undefined what a call does to which only some
/// ranks of a communicator pass registered memory, or pass it at different places.
void Session::register_memory() {
  std::vector<comm::Channel*> alike;
  for (const Lane lane : communication_lanes)
    if (lane != Lane::pipe && !is_between_stages(lane) && channel(lane) != nullptr)
      alike.push_back(channel(lane));
  bool registered = true;
  for (comm::Channel* one : alike) registered = memory_.register_with(*one) && registered;
  if (comm::on_all_ranks(world_, registered)) return;
  for (comm::Channel* one : alike) one->forget_memory();
}

void Session::decide_peer_reads(const Deck& deck) {
  const comm::Channel* const reduce = channel(Lane::reduce);
  const bool ordered = deck.precision.reduction == ReduceOrder::canonical;  // else NCCL adds up by itself
  if (deck.schedule.peer_reads && ordered && reduce != nullptr && !device_is_host())
    allow_peer_reads(reduce->cannot_show_memory());
}

/// Lets the ranks of the data axis read each other's gradients, where the deck wants it: all ranks or none,
/// because they would wait for each other in different ways. Other lanes' memory is not shown: what they add
/// up in the library's order would get another order where it lies in memory that is.
void Session::show_memory(bool suitable) {
  if (!peer_reads_) return;
  comm::Channel& reduce = *channel(Lane::reduce);
  allow_peer_reads(suitable ? memory_.show_to(reduce) : "there is no memory that ranks can share");
  if (!peer_reads_) reduce.hide_memory();
}

void Session::allow_peer_reads(const std::string& why) {
  peer_reads_ = comm::on_all_ranks(world_, why.empty());
  set_teams();
  if (peer_reads_) return;
  const std::vector<std::string> of_ranks = world_.gather_strings(why);
  const auto first = std::find_if(of_ranks.begin(), of_ranks.end(), [](auto& text) { return !text.empty(); });
  if (first == of_ranks.end()) return;  // on all ranks but the first
  log::warn("schedule.peer_reads has no effect (rank {}: {}); gradients are sent as messages",
            first - of_ranks.begin(), *first);
}

void Session::share_channels(comm::Window& window) {
  const Teams& teams = mesh_.teams();
  if (teams.data > 1)
    for (const Lane lane : {Lane::gather, Lane::reduce})
      channels_[lane]->share(window, comm::SharedGathers::to_common);
  if (teams.context > 1) channels_[Lane::context]->share(window, comm::SharedGathers::from_parts);
  if (teams.tensor > 1) channels_[Lane::tensor]->share(window, comm::SharedGathers::from_parts);
}

void Session::check_same_plan(const plan::Plan& plan) {
  const std::vector<Fact> facts{
      {fmt::format("the plan of '{}'", plan.graph.name()), fmt::format("{:016x}", plan.hash)}};
  check_same(world_, facts,
             "start all ranks from one installation, with one deck and one profile, on equal nodes",
             {mesh_.pipe_firsts(), pipe_rank()});
}

std::unique_ptr<exec::Executor> Session::bind(plan::Plan plan) {
  auto rows = TokenRows::make(plan, tensor_rank(), [this] {
    return world_.open(mesh_.group(rank(), mesh_.axis(data_axis)), Lane::gather, "rows");
  });
  if (rows && token_rows_) throw std::logic_error("a second plan sends rows");
  if (rows) token_rows_ = std::move(rows);
  PerLane<comm::Channel*> channels;
  for (const Lane lane : communication_lanes) channels[lane] = channel(lane);
  const exec::Device device{.space = space_,
                            .matmuls = matmuls_,
                            .compute = compute_,
                            .channels = channels,
                            .rows = token_rows_ ? &token_rows_->by_round() : nullptr,
                            .log = &log_,
                            .data_rank = shard(),
                            .tensor_rank = tensor_rank(),
                            .context_rank = context_rank(),
                            .capture = capture_,
                            .runs = runs_.get()};
  auto executor = std::make_unique<exec::Executor>(std::move(plan), device, memory_, shard_);
  if (!device_is_host()) comm::tell_kept_warnings(world_);  // no kernel of the host has one
  return executor;
}

}  // namespace weft::runtime
