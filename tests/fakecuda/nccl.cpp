// NCCL between processes of one host. A communicator is a page that all of its ranks map; what a rank sends
// lies in its device memory, which the others map to read. Nothing blocks: a call has turns, like all work on
// a queue, and tells when it waits for another rank.
//
// Every collective is compared on all ranks: its place in the order, its operation, number of elements, type
// and root, and whether it is captured; of a message its two ends are. A real NCCL hangs, or adds up what
// does not belong together. So is it whether operands lie in registered memory, and where there: NVIDIA
// leaves it undefined what comes of ranks that differ. What ends a communicator waits for all its ranks, as
// NCCL does on a host, and is refused while a queue or a graph has calls of it: from NCCL 2.26 on, it would
// wait for the graph's end.
//
// A window is registered by all ranks, with one size, and a device communicator is made by all. Kernels that
// read other ranks' memory by them have the checks of peers.hpp. Both end before their communicator.
//
// NCCL promises no order of a sum. Here it is a ring's, which is not that of the ranks: from three ranks on,
// a sum that must be in their order has other bits where it is left to NCCL.
#include <fcntl.h>
#include <nccl.h>
#include <nccl_device.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/dtype.hpp"
#include "fakecuda/device.hpp"
#include "fakecuda/peers.hpp"

namespace {

using fakecuda::fail;
using fakecuda::Turn;

constexpr int most_ranks = 16;

constexpr const char* asked_for = "FAKECUDA_FAULT asks for it";
std::atomic<const char*> last_error = "";

enum class Kind : int { all_gather, reduce_scatter, all_reduce, broadcast };
constexpr const char* names[] = {"ncclAllGather", "ncclReduceScatter", "ncclAllReduce", "ncclBroadcast"};

/// What a rank says of a collective.
struct Call {
  Kind kind;
  std::size_t count;
  ncclDataType_t type;
  ncclRedOp_t op;
  int root;
  bool captured;  ///< it is part of a graph
  bool operator==(const Call&) const = default;
};
/// What a rank says of a message.
struct Message {
  std::size_t count;
  ncclDataType_t type;
  bool captured;
  bool operator==(const Message&) const = default;
};
const char* text_of_captured(bool captured) {
  return captured ? ", captured" : "";
}
std::string text_of(const Call& c) {
  return std::string(names[static_cast<int>(c.kind)]) + " of " + std::to_string(c.count) +
         " elements of type " + std::to_string(c.type) + ", operation " + std::to_string(c.op) + ", root " +
         std::to_string(c.root) + text_of_captured(c.captured);
}
std::string text_of(const fakecuda::PeerCall& c, int window, bool captured) {
  return std::to_string(c.bytes) + " bytes of type " + std::to_string(c.type) + " at " +
         std::to_string(c.offset) + " of window " + std::to_string(window) + ", " + std::to_string(c.blocks) +
         " blocks" + text_of_captured(captured);
}
std::string text_of(const Message& m) {
  return std::to_string(m.count) + " elements of type " + std::to_string(m.type) +
         text_of_captured(m.captured);
}

/// Where an operand lies in registered memory: in which of the communicator's registrations, by the order in
/// which they were made, and how many bytes behind its beginning.
struct Place {
  int registration = -1;  ///< -1: in none
  std::size_t offset = 0;
  bool operator==(const Place&) const = default;
};
std::string text_of(const Place& p) {
  return p.registration < 0
             ? "no registered memory"
             : "registration " + std::to_string(p.registration) + " at " + std::to_string(p.offset);
}
/// Those of a collective's operands. Where it is in place, both are that of the longer one.
struct Places {
  Place sent, received;
  bool operator==(const Places&) const = default;
};
std::string text_of(const Places& p) {
  return "sends from " + text_of(p.sent) + " and receives in " + text_of(p.received);
}

enum class HostKind : int { window, device_communicator };
constexpr const char* host_names[] = {"ncclCommWindowRegister", "ncclDevCommCreate"};

/// What a rank says of a call that all ranks make on the host.
struct HostCall {
  HostKind kind;
  std::size_t number;   ///< bytes of a window, or barriers of a device communicator
  std::size_t operand;  ///< where a window begins
};

struct Member {
  pid_t process;
  int file;
  std::size_t bytes;
  int most_blocks;
  std::atomic<int> here;  ///< 1: has begun to open the communicator; 2: has opened it; 3: has begun to end it
  // A collective: what it is and where its operands lie, then that all operands have been read.
  Call call;
  Places places;
  std::size_t operand;
  std::atomic<std::uint64_t> posted, read;
  // A call on the host: what it is, and that all ranks' have been heard of.
  HostCall host_call;
  std::atomic<std::uint64_t> called, heard;
  // A kernel that reads other ranks' memory: what it is; that it has begun, and has read all; and how often
  // all kernels have met others.
  fakecuda::PeerCall kernel;
  int window;
  bool captured;
  std::atomic<std::uint64_t> begun, done_reading, met;
};
/// Messages from one rank to another, in their order.
struct Mailbox {
  std::size_t operand;
  Message message;
  bool registered;
  std::atomic<std::uint64_t> posted, read;
};
/// The page that all ranks of a communicator map. It begins as zeros.
struct Shared {
  Member members[most_ranks];
  Mailbox mail[most_ranks][most_ranks];  ///< by sender and receiver
};

struct Id {
  pid_t process;
  int file;
};

std::size_t size_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8: return 1;
    case ncclFloat16:
    case ncclBfloat16: return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32: return 4;
    default: return 8;
  }
}

std::size_t bytes_of(const Message& m) {
  return m.count * size_of(m.type);
}

template <class T>
T combine(T a, T b, ncclRedOp_t op) {
  if (op == ncclSum) return static_cast<T>(a + b);
  if (op == ncclMax) return std::max(a, b);
  if (op == ncclMin) return std::min(a, b);
  fail("a reduction that Weft does not ask for");
}
template <class T>
void add_all(std::byte* to, const std::byte* from, std::size_t count, ncclRedOp_t op) {
  auto* out = reinterpret_cast<T*>(to);
  const auto* in = reinterpret_cast<const T*>(from);
  for (std::size_t i = 0; i < count; ++i) out[i] = combine(out[i], in[i], op);
}
void add(std::byte* to, const std::byte* from, std::size_t count, ncclDataType_t type, ncclRedOp_t op) {
  switch (type) {
    case ncclFloat32: return add_all<float>(to, from, count, op);
    case ncclFloat64: return add_all<double>(to, from, count, op);
    case ncclInt32: return add_all<std::int32_t>(to, from, count, op);
    case ncclUint32: return add_all<std::uint32_t>(to, from, count, op);
    case ncclInt64: return add_all<std::int64_t>(to, from, count, op);
    case ncclUint64: return add_all<std::uint64_t>(to, from, count, op);
    case ncclBfloat16: {
      auto* out = reinterpret_cast<weft::bf16*>(to);
      const auto* in = reinterpret_cast<const weft::bf16*>(from);
      for (std::size_t i = 0; i < count; ++i)
        out[i] = weft::to_bf16(combine(weft::to_float(out[i]), weft::to_float(in[i]), op));
      return;
    }
    default: fail("this type is summed by no test");
  }
}

int open_of(pid_t process, int file) {
  const std::string path = "/proc/" + std::to_string(process) + "/fd/" + std::to_string(file);
  const int opened = open(path.c_str(), O_RDWR);
  if (opened < 0) fail("cannot open " + path + ", the memory of another rank");
  return opened;
}

void* map(int file, std::size_t bytes, int rights) {
  void* at = mmap(nullptr, bytes, rights, MAP_SHARED | MAP_NORESERVE, file, 0);
  if (at == MAP_FAILED) fail("cannot map the memory of another rank");
  return at;
}

template <class Reached>
void wait_until(const char* call, const Reached& reached) {
  const auto deadline = std::chrono::steady_clock::now() + fakecuda::patience();
  while (!reached()) {
    if (std::chrono::steady_clock::now() > deadline) fail(std::string(call) + ": a rank did not come");
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

/// What ncclMemAlloc has given.
struct Allocation {
  std::size_t bytes = 0;
  std::atomic<int> registrations = 0;  ///< of all communicators
};

/// A stretch of device memory that a communicator knows; its address is the handle.
struct Registration {
  std::uintptr_t begin = 0;
  std::size_t bytes = 0;
  int number = 0;
  std::shared_ptr<Allocation> allocation;
};

/// A window; its address is the handle.
struct Window {
  Registration mine;
  std::vector<std::size_t> begins;  ///< by rank, in the memory of each
};

}  // namespace

struct ncclComm {
  Shared* shared = nullptr;
  int rank = 0, size = 1, device = 0;
  std::vector<const std::byte*> memory;  ///< of every rank
  std::uint64_t collectives = 0;
  std::uint64_t sent[most_ranks] = {}, received[most_ranks] = {};
  std::vector<std::unique_ptr<Registration>> registrations;
  int registered = 0;  ///< how many registrations there have been
  std::vector<std::unique_ptr<Window>> windows;
  int opened_windows = 0, device_comms = 0;
  std::uint64_t host_calls = 0, kernels = 0, meetings = 0;
  /// Others hold these while a queue has calls of this communicator, and while a graph has some.
  std::shared_ptr<char> in_queues = std::make_shared<char>(), in_graphs = std::make_shared<char>();
  std::atomic<bool> aborted = false;
  std::atomic<bool> failed = false;  ///< as FAKECUDA_FAULT asks: no collective ends any more

  Member& member(int r) const { return shared->members[r]; }
  bool all_at(int stage) const {
    for (int r = 0; r < size; ++r)
      if (member(r).here.load() < stage) return false;
    return true;
  }
};

namespace {

/// The allocations of ncclMemAlloc, by address. It is never destroyed, like those of the device.
std::map<std::uintptr_t, std::shared_ptr<Allocation>>& nccl_memory() {
  static auto& all = *new std::map<std::uintptr_t, std::shared_ptr<Allocation>>;
  return all;
}
/// The allocation that has all of these bytes; null when there is none.
std::shared_ptr<Allocation> nccl_allocation(const void* p, std::size_t bytes) {
  const auto address = reinterpret_cast<std::uintptr_t>(p);
  auto above = nccl_memory().upper_bound(address);
  if (above == nccl_memory().begin()) return nullptr;
  const auto& [begin, allocation] = *--above;
  const std::size_t offset = address - begin;
  return offset <= allocation->bytes && bytes <= allocation->bytes - offset ? allocation : nullptr;
}

Place place_in(const ncclComm& comm, const void* p) {
  const auto address = reinterpret_cast<std::uintptr_t>(p);
  for (const auto& r : comm.registrations)
    if (address >= r->begin && address - r->begin < r->bytes) return {r->number, address - r->begin};
  return {};
}

/// In place, one operand is this rank's part of the other, so it lies elsewhere on each rank.
Places places_of(const ncclComm& comm, const Call& call, const void* in, const void* out) {
  Places p{place_in(comm, in), place_in(comm, out)};
  const std::size_t own = static_cast<std::size_t>(comm.rank) * call.count * size_of(call.type);
  const auto is_part = [own](const void* part, const void* whole) {
    return static_cast<const std::byte*>(part) == static_cast<const std::byte*>(whole) + own;
  };
  if (call.kind == Kind::all_gather && is_part(in, out)) p.sent = p.received;
  if (call.kind == Kind::reduce_scatter && is_part(out, in)) p.received = p.sent;
  return p;
}

/// Makes a call that all ranks make on the host, and gives what each of them has said.
std::vector<HostCall> call_on_host(ncclComm& comm, const HostCall& mine) {
  Member& me = comm.member(comm.rank);
  const char* const name = host_names[static_cast<int>(mine.kind)];
  const std::uint64_t number = ++comm.host_calls;
  const auto wait_for_all = [&](std::atomic<std::uint64_t> Member::*stage) {
    (me.*stage).store(number, std::memory_order_release);
    wait_until(name, [&] {
      for (int r = 0; r < comm.size; ++r)
        if ((comm.member(r).*stage).load(std::memory_order_acquire) < number) return false;
      return true;
    });
  };
  me.host_call = mine;
  wait_for_all(&Member::called);
  std::vector<HostCall> all;
  for (int r = 0; r < comm.size; ++r) all.push_back(comm.member(r).host_call);
  wait_for_all(&Member::heard);
  for (int r = 0; r < comm.size; ++r)
    if (const HostCall& other = all[static_cast<std::size_t>(r)];
        other.kind != mine.kind || other.number != mine.number)
      fail(std::string(name) + " differs: rank " + std::to_string(comm.rank) + " has " +
           std::to_string(mine.number) + ", rank " + std::to_string(r) + " has " +
           host_names[static_cast<int>(other.kind)] + " with " + std::to_string(other.number));
  return all;
}

/// Where device memory lies in its file, which is what other ranks know it by.
std::size_t place_of(const void* p) {
  return reinterpret_cast<std::uintptr_t>(p) - fakecuda::region().begin;
}

/// What goes one after another: the collectives of a communicator, and its messages to, or from, a rank.
struct Order {
  ncclComm_t comm = nullptr;
  int to = -1, from = -1;
  bool operator==(const Order&) const = default;
};

/// The turns of a part of a group.
struct Part {
  std::shared_ptr<char> in_queue;
  Order order;
  fakecuda::Work work;
  bool done = false;
};

std::size_t sent_bytes(const ncclComm& comm, const Call& call) {
  const std::size_t slices = call.kind == Kind::reduce_scatter ? static_cast<std::size_t>(comm.size) : 1;
  return slices * call.count * size_of(call.type);
}
std::size_t received_bytes(const ncclComm& comm, const Call& call) {
  const std::size_t slices = call.kind == Kind::all_gather ? static_cast<std::size_t>(comm.size) : 1;
  return slices * call.count * size_of(call.type);
}

fakecuda::Work collective(ncclComm_t comm, Call call, Places places, const void* in, void* out) {
  struct State {
    std::uint64_t number = 0;
    bool computed = false;
    std::vector<std::byte> result;
  };
  return [=, state = std::make_shared<State>()]() -> Turn {
    Member& me = comm->member(comm->rank);
    if (comm->aborted) return Turn::done;
    if (comm->failed) return Turn::waiting;
    if (state->number == 0) {
      if (fakecuda::is_to_fail("ncclCommGetAsyncError")) {
        comm->failed = true;
        last_error = asked_for;
        return Turn::waiting;
      }
      fakecuda::refuse_host_memory(names[static_cast<int>(call.kind)], "what is sent", in,
                                   sent_bytes(*comm, call));
      state->number = ++comm->collectives;
      me.call = call;
      me.places = places;
      me.operand = place_of(in);
      me.posted.store(state->number, std::memory_order_release);
      return Turn::some;
    }
    const std::size_t bytes = call.count * size_of(call.type);
    if (!state->computed) {
      for (int r = 0; r < comm->size; ++r)
        if (comm->member(r).posted.load(std::memory_order_acquire) < state->number) return Turn::waiting;
      const auto operand = [&](int r, std::size_t offset) {
        return comm->memory[static_cast<std::size_t>(r)] + comm->member(r).operand + offset;
      };
      for (int r = 0; r < comm->size; ++r)
        if (comm->member(r).call != call)
          fail("collective " + std::to_string(state->number) + " differs: rank " +
               std::to_string(comm->rank) + " has " + text_of(call) + ", rank " + std::to_string(r) +
               " has " + text_of(comm->member(r).call));
      for (int r = 0; r < comm->size; ++r)
        if (comm->member(r).places != places)
          fail("collective " + std::to_string(state->number) + " (" + names[static_cast<int>(call.kind)] +
               ") lies elsewhere on other ranks: rank " + std::to_string(comm->rank) + " " + text_of(places) +
               ", rank " + std::to_string(r) + " " + text_of(comm->member(r).places));
      auto& result = state->result;
      const auto size = static_cast<std::size_t>(comm->size);
      // The sum of a part goes around the ring of the ranks, and ends at the rank with the part's number. So
      // all ranks have the same result, and each part of a vector has another order.
      const auto add_up = [&](std::size_t part, std::size_t first, std::size_t count) {
        const std::size_t begin = first * size_of(call.type), end = begin + count * size_of(call.type);
        const std::size_t place = result.size();
        const auto rank = [&](std::size_t turn) { return static_cast<int>((part + turn) % size); };
        result.insert(result.end(), operand(rank(1), begin), operand(rank(1), end));
        for (std::size_t turn = 2; turn <= size; ++turn)
          add(result.data() + place, operand(rank(turn), begin), count, call.type, call.op);
      };
      switch (call.kind) {
        case Kind::all_gather:
          for (int r = 0; r < comm->size; ++r) result.insert(result.end(), operand(r, 0), operand(r, bytes));
          break;
        case Kind::broadcast: result.assign(operand(call.root, 0), operand(call.root, bytes)); break;
        case Kind::reduce_scatter: {
          const auto mine = static_cast<std::size_t>(comm->rank);
          add_up(mine, mine * call.count, call.count);
          break;
        }
        case Kind::all_reduce: {
          const std::size_t most = (call.count + size - 1) / size;
          for (std::size_t part = 0; part < size; ++part) {
            const std::size_t first = std::min(part * most, call.count);
            add_up(part, first, std::min(most, call.count - first));
          }
        }
      }
      me.read.store(state->number, std::memory_order_release);
      state->computed = true;
      return Turn::some;
    }
    for (int r = 0; r < comm->size; ++r)
      if (comm->member(r).read.load(std::memory_order_acquire) < state->number) return Turn::waiting;
    std::memcpy(out, state->result.data(), state->result.size());
    return Turn::done;
  };
}

/// A run of a kernel that reads the memory of all ranks.
fakecuda::Work peer_kernel(ncclComm_t comm, Window* window, fakecuda::PeerCall call, bool captured,
                           std::vector<fakecuda::PeerStep> steps) {
  struct State {
    std::shared_ptr<char> in_queue;
    std::uint64_t number = 0, meeting = 0;
    std::size_t step = 0;
  };
  return [=, state = std::make_shared<State>(State{comm->in_queues})]() -> Turn {
    Member& me = comm->member(comm->rank);
    if (comm->aborted) return Turn::done;
    if (comm->failed) return Turn::waiting;
    if (state->number == 0) {
      state->number = ++comm->kernels;
      me.kernel = call;
      me.window = window->mine.number;
      me.captured = captured;
      me.begun.store(state->number, std::memory_order_release);
    }
    const auto expect_all_at = [&](const std::atomic<std::uint64_t> Member::*stage, const char* wrong) {
      for (int r = 0; r < comm->size; ++r)
        if ((comm->member(r).*stage).load(std::memory_order_acquire) < state->number)
          fail("a kernel of rank " + std::to_string(comm->rank) + " that reads other ranks' memory " + wrong +
               " rank " + std::to_string(r));
    };
    for (; state->step < steps.size(); ++state->step) {
      if (!steps[state->step]) {
        if (state->meeting == 0) {
          state->meeting = ++comm->meetings;
          me.met.store(state->meeting, std::memory_order_release);
          return Turn::some;
        }
        for (int r = 0; r < comm->size; ++r)
          if (comm->member(r).met.load(std::memory_order_acquire) < state->meeting) return Turn::waiting;
        state->meeting = 0;
        continue;
      }
      expect_all_at(&Member::begun, "reads before it has met");
      std::vector<const std::byte*> begins;
      for (int r = 0; r < comm->size; ++r) {
        const Member& other = comm->member(r);
        if (other.kernel != call || other.window != window->mine.number || other.captured != captured)
          fail("kernel " + std::to_string(state->number) + " that reads other ranks' memory differs: rank " +
               std::to_string(comm->rank) + " has " + text_of(call, window->mine.number, captured) +
               ", rank " + std::to_string(r) + " has " + text_of(other.kernel, other.window, other.captured));
        const auto rank = static_cast<std::size_t>(r);
        begins.push_back(comm->memory[rank] + window->begins[rank]);
      }
      steps[state->step](begins);
      me.done_reading.store(state->number, std::memory_order_release);
    }
    expect_all_at(&Member::done_reading, "ends before its own was read by");
    return Turn::done;
  };
}

fakecuda::Work message_out(ncclComm_t comm, bool registered, const void* from, Message message, int peer) {
  return [=, number = std::uint64_t{0}]() mutable -> Turn {
    Mailbox& mail = comm->shared->mail[comm->rank][peer];
    if (comm->aborted) return Turn::done;
    if (number == 0) {
      fakecuda::refuse_host_memory("ncclSend", "what is sent", from, bytes_of(message));
      if (mail.read.load(std::memory_order_acquire) < comm->sent[peer]) return Turn::waiting;
      number = ++comm->sent[peer];
      mail.operand = place_of(from);
      mail.message = message;
      mail.registered = registered;
      mail.posted.store(number, std::memory_order_release);
      return Turn::some;
    }
    return mail.read.load(std::memory_order_acquire) < number ? Turn::waiting : Turn::done;
  };
}

fakecuda::Work message_in(ncclComm_t comm, bool registered, void* to, Message message, int peer) {
  const auto memory = [](bool is_registered) -> std::string {
    return is_registered ? "registered memory" : "memory that is not registered";
  };
  return [=]() -> Turn {
    Mailbox& mail = comm->shared->mail[peer][comm->rank];
    if (comm->aborted) return Turn::done;
    if (mail.posted.load(std::memory_order_acquire) <= comm->received[peer]) return Turn::waiting;
    if (mail.message != message)
      fail("rank " + std::to_string(comm->rank) + " receives " + text_of(message) + " from rank " +
           std::to_string(peer) + ", which sends " + text_of(mail.message));
    if (mail.registered != registered)
      fail("rank " + std::to_string(comm->rank) + " receives in " + memory(registered) + ", and rank " +
           std::to_string(peer) + " sends from " + memory(mail.registered));
    std::memcpy(to, comm->memory[static_cast<std::size_t>(peer)] + mail.operand, bytes_of(message));
    mail.read.store(++comm->received[peer], std::memory_order_release);
    return Turn::done;
  };
}

/// All parts of a group go on beside each other, but for those that have an order.
Turn turn_of(std::vector<Part>& parts) {
  bool went_on = false;
  std::vector<Order> busy;
  for (Part& part : parts) {
    if (part.done || std::find(busy.begin(), busy.end(), part.order) != busy.end()) continue;
    const Turn turn = part.work();
    part.done = turn == Turn::done;
    went_on = went_on || turn != Turn::waiting;
    if (!part.done) busy.push_back(part.order);
  }
  if (std::all_of(parts.begin(), parts.end(), [](const Part& part) { return part.done; })) return Turn::done;
  return went_on ? Turn::some : Turn::waiting;
}

/// A part, by what makes it anew for each run of a graph.
struct Recipe {
  std::shared_ptr<char> in_graph;
  Order order;
  cudaStream_t stream;
  std::string what;
  std::function<fakecuda::Work()> begin;
};
thread_local int group_depth = 0;
thread_local std::vector<Recipe> group;

ncclResult_t enqueue_group(std::vector<Recipe> recipes) {
  while (!recipes.empty()) {
    const cudaStream_t stream = recipes.front().stream;
    std::vector<Recipe> same, others;
    for (Recipe& r : recipes) (r.stream == stream ? same : others).push_back(std::move(r));
    const std::string what = same.front().what;
    const cudaError_t error = fakecuda::enqueue(stream, what, [same = std::move(same)] {
      auto parts = std::make_shared<std::vector<Part>>();
      for (const Recipe& r : same) parts->push_back({r.order.comm->in_queues, r.order, r.begin(), false});
      return fakecuda::Work([parts] { return turn_of(*parts); });
    });
    if (error != cudaSuccess) return ncclUnhandledCudaError;
    recipes = std::move(others);
  }
  return ncclSuccess;
}

bool is_captured(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cudaStreamGetCaptureInfo(stream, &status, nullptr, nullptr, nullptr, nullptr, nullptr);
  return status == cudaStreamCaptureStatusActive;
}

ncclResult_t add_part(Recipe recipe) {
  if (recipe.order.comm->device != fakecuda::current_device())
    fail(recipe.what + ": the communicator belongs to another device");
  group.push_back(std::move(recipe));
  return group_depth > 0 ? ncclSuccess : enqueue_group(std::exchange(group, {}));
}

ncclResult_t add_collective(ncclComm_t comm, cudaStream_t stream, Call call, const void* in, void* out) {
  const char* name = names[static_cast<int>(call.kind)];
  if (fakecuda::is_to_fail(name)) {
    last_error = asked_for;
    return ncclSystemError;
  }
  fakecuda::refuse_host_memory(name, "what is sent", in, sent_bytes(*comm, call));
  fakecuda::refuse_host_memory(name, "what is received", out, received_bytes(*comm, call));
  const Places places = places_of(*comm, call, in, out);
  call.captured = is_captured(stream);
  return add_part({comm->in_graphs, {comm, -1, -1}, stream, name, [=] {
                     return collective(comm, call, places, in, out);
                   }});
}

}  // namespace

cudaError_t fakecuda::enqueue_peer_kernel(cudaStream_t stream, std::string what, const ncclDevComm& device,
                                          ncclWindow_t handle, const PeerCall& call,
                                          std::vector<PeerStep> steps) {
  auto* const comm = reinterpret_cast<ncclComm_t>(device.windowTable);
  auto* const window = reinterpret_cast<Window*>(handle);
  if (call.offset > window->mine.bytes || call.bytes > window->mine.bytes - call.offset)
    fail(what + ": it reads past the end of its window");
  if (call.blocks > device.lsaBarrier.nBarriers)
    fail(what + ": it has " + std::to_string(call.blocks) + " blocks, and the device communicator has " +
         std::to_string(device.lsaBarrier.nBarriers) + " barriers");
  const bool captured = is_captured(stream);
  return enqueue(stream, std::move(what), [=, steps = std::move(steps), in_graph = comm->in_graphs] {
    return peer_kernel(comm, window, call, captured, steps);
  });
}

ncclResult_t ncclGetVersion(int* version) {
  *version = fakecuda::is_to_fail("ncclGetVersion") ? NCCL_VERSION(2, 28, 0) : NCCL_VERSION_CODE;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclSuccess ? "success" : "NCCL's error of the preset fakecuda";
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const Id mine{getpid(), memfd_create("fakenccl", 0)};
  if (mine.file < 0 || ftruncate(mine.file, sizeof(Shared)) != 0) fail("no room for a communicator");
  std::memset(id, 0, sizeof *id);
  std::memcpy(id, &mine, sizeof mine);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* result, int size, ncclUniqueId id, int rank) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  return ncclCommInitRankConfig(result, size, id, rank, &config);
}

/// A limit of the environment goes before the program's, as in NCCL.
ncclResult_t ncclCommInitRankConfig(ncclComm_t* result, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (size > most_ranks) fail("more ranks than a communicator of the preset fakecuda has");
  Id root;
  std::memcpy(&root, &id, sizeof root);
  auto comm = std::make_unique<ncclComm>();
  comm->rank = rank;
  comm->size = size;
  comm->device = fakecuda::current_device();
  const int file = open_of(root.process, root.file);
  comm->shared = static_cast<Shared*>(map(file, sizeof(Shared), PROT_READ | PROT_WRITE));
  close(file);
  const fakecuda::Region own = fakecuda::region();
  Member& me = comm->member(rank);
  me.process = getpid();
  me.file = own.file;
  me.bytes = own.bytes;
  const char* const wish = std::getenv("NCCL_MAX_CTAS");
  me.most_blocks = wish != nullptr ? std::atoi(wish) : config->maxCTAs;
  me.here.store(1);
  wait_until("ncclCommInitRank", [&] { return comm->all_at(1); });
  for (int r = 0; r < size; ++r)
    if (const int theirs = comm->member(r).most_blocks; theirs != me.most_blocks)
      fail("ncclCommInitRankConfig: rank " + std::to_string(rank) + " has " + std::to_string(me.most_blocks) +
           " blocks at most, and rank " + std::to_string(r) + " has " + std::to_string(theirs));
  for (int r = 0; r < size; ++r) {
    const int theirs = open_of(comm->member(r).process, comm->member(r).file);
    comm->memory.push_back(static_cast<const std::byte*>(map(theirs, comm->member(r).bytes, PROT_READ)));
    close(theirs);
  }
  me.here.store(2);
  wait_until("ncclCommInitRank", [&] { return comm->all_at(2); });
  if (rank == 0) close(root.file);
  fakecuda::count_object("communicators", 1);
  if (me.most_blocks != NCCL_CONFIG_UNDEF_INT)
    fakecuda::count_object("blocks of communicators", me.most_blocks);
  *result = comm.release();
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (!comm->registrations.empty()) fail("ncclCommDestroy: the communicator still has memory registered");
  if (!comm->windows.empty()) fail("ncclCommDestroy: the communicator still has windows");
  if (comm->device_comms > 0) fail("ncclCommDestroy: the communicator still has a device communicator");
  if (comm->in_queues.use_count() > 1) fail("ncclCommDestroy: a stream still has calls of the communicator");
  if (comm->in_graphs.use_count() > 1) fail("ncclCommDestroy: a graph still has calls of the communicator");
  comm->member(comm->rank).here.store(3);
  wait_until("ncclCommDestroy", [&] { return comm->all_at(3); });
  const int blocks = comm->member(comm->rank).most_blocks;
  for (int r = 0; r < comm->size; ++r)
    munmap(const_cast<std::byte*>(comm->memory[static_cast<std::size_t>(r)]), comm->member(r).bytes);
  munmap(comm->shared, sizeof(Shared));
  delete comm;
  fakecuda::count_object("communicators", -1);
  if (blocks != NCCL_CONFIG_UNDEF_INT) fakecuda::count_object("blocks of communicators", -blocks);
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  comm->aborted = true;  // it stays, because queues may still hold its calls
  comm->member(comm->rank).here.store(3);
  wait_until("ncclCommAbort", [&] { return comm->all_at(3); });
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  *error = comm->failed ? ncclRemoteError : ncclSuccess;
  return ncclSuccess;
}
/// NCCL has one text for all communicators of a process.
const char* ncclGetLastError(ncclComm_t) {
  return last_error;
}

/// Takes memory of ncclMemAlloc alone, as the algorithms of NVLink's switches want it. Other memory is no
/// error, and gets no handle.
ncclResult_t ncclCommRegister(ncclComm_t comm, void* memory, std::size_t bytes, void** handle) {
  fakecuda::refuse_host_memory("ncclCommRegister", "the memory", memory, bytes);
  *handle = nullptr;
  if (fakecuda::is_to_fail("ncclCommRegister")) return ncclSystemError;
  const std::shared_ptr<Allocation> allocation = nccl_allocation(memory, bytes);
  if (allocation == nullptr) return ncclSuccess;
  ++allocation->registrations;
  comm->registrations.push_back(std::make_unique<Registration>(
      Registration{reinterpret_cast<std::uintptr_t>(memory), bytes, comm->registered++, allocation}));
  *handle = comm->registrations.back().get();
  fakecuda::count_object("registrations", 1);
  return ncclSuccess;
}
ncclResult_t ncclCommDeregister(ncclComm_t comm, void* handle) {
  auto& all = comm->registrations;
  const auto found = std::find_if(all.begin(), all.end(), [=](const auto& r) { return r.get() == handle; });
  if (found == all.end()) fail("ncclCommDeregister: the handle is another communicator's");
  --(*found)->allocation->registrations;
  all.erase(found);
  fakecuda::count_object("registrations", -1);
  return ncclSuccess;
}

/// A rank whose call is to fail has done its part all the same: else the others would wait for it, as NCCL's
/// do. Their calls succeed.
ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* memory, std::size_t bytes, ncclWindow_t* window,
                                    int flags) {
  const char* const name = host_names[static_cast<int>(HostKind::window)];
  *window = nullptr;
  if (flags != NCCL_WIN_COLL_SYMMETRIC) fail(std::string(name) + ": Weft asks for symmetric windows alone");
  const std::shared_ptr<Allocation> allocation = nccl_allocation(memory, bytes);
  if (allocation == nullptr) fail(std::string(name) + ": the memory is not one allocation of ncclMemAlloc");
  const std::vector<HostCall> all = call_on_host(*comm, {HostKind::window, bytes, place_of(memory)});
  const int number = comm->opened_windows++;
  if (fakecuda::is_to_fail(name)) {
    last_error = asked_for;
    return ncclSystemError;
  }
  ++allocation->registrations;
  auto made = std::make_unique<Window>(
      Window{{reinterpret_cast<std::uintptr_t>(memory), bytes, number, allocation}, {}});
  for (const HostCall& rank : all) made->begins.push_back(rank.operand);
  *window = reinterpret_cast<ncclWindow_t>(made.get());
  comm->windows.push_back(std::move(made));
  fakecuda::count_object("windows", 1);
  return ncclSuccess;
}
ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window) {
  constexpr const char* name = "ncclCommWindowDeregister";
  auto& all = comm->windows;
  const auto found = std::find_if(all.begin(), all.end(), [=](const auto& w) {
    return reinterpret_cast<ncclWindow_t>(w.get()) == window;
  });
  if (found == all.end()) fail(std::string(name) + ": the window is another communicator's");
  if (comm->in_queues.use_count() > 1)
    fail(std::string(name) + ": a stream still has calls of the communicator");
  --(*found)->mine.allocation->registrations;
  all.erase(found);
  fakecuda::count_object("windows", -1);
  return ncclSuccess;
}

/// All ranks can read each other's memory, unless the call is to fail.
ncclTeam_t ncclTeamLsa(ncclComm_t comm) {
  return fakecuda::is_to_fail("ncclTeamLsa") ? ncclTeam_t{1, 0, 1} : ncclTeam_t{comm->size, comm->rank, 1};
}

ncclResult_t ncclDevCommCreate(ncclComm_t comm, const ncclDevCommRequirements_t* needs, ncclDevComm_t* made) {
  const char* const name = host_names[static_cast<int>(HostKind::device_communicator)];
  call_on_host(*comm, {HostKind::device_communicator, static_cast<std::size_t>(needs->lsaBarrierCount), 0});
  if (fakecuda::is_to_fail(name)) {
    last_error = asked_for;
    return ncclSystemError;
  }
  *made = {};
  made->rank = made->lsaRank = comm->rank;
  made->nRanks = made->lsaSize = comm->size;
  made->lsaBarrier.nBarriers = needs->lsaBarrierCount;
  made->windowTable = reinterpret_cast<ncclDevCommWindowTable*>(comm);  // whose it is, for its kernels
  ++comm->device_comms;
  fakecuda::count_object("device communicators", 1);
  return ncclSuccess;
}
ncclResult_t ncclDevCommDestroy(ncclComm_t comm, const ncclDevComm_t* /*made*/) {
  if (comm->in_queues.use_count() > 1)
    fail("ncclDevCommDestroy: a stream still has calls of the communicator");
  --comm->device_comms;
  fakecuda::count_object("device communicators", -1);
  return ncclSuccess;
}

ncclResult_t ncclMemAlloc(void** memory, std::size_t bytes) {
  if (fakecuda::is_to_fail("ncclMemAlloc") || cudaMalloc(memory, bytes) != cudaSuccess)
    return ncclUnhandledCudaError;
  auto allocation = std::make_shared<Allocation>();
  allocation->bytes = bytes;
  nccl_memory().emplace(reinterpret_cast<std::uintptr_t>(*memory), std::move(allocation));
  return ncclSuccess;
}
/// Memory may still be registered when an exception is on its way: Weft then leaves communicators to the
/// process' end, because ending one would wait for other ranks.
ncclResult_t ncclMemFree(void* memory) {
  const std::shared_ptr<Allocation> allocation = nccl_allocation(memory, 0);
  if (allocation != nullptr && allocation->registrations > 0 && std::uncaught_exceptions() == 0)
    fail("ncclMemFree: a communicator still has the memory registered");
  nccl_memory().erase(reinterpret_cast<std::uintptr_t>(memory));
  return cudaFree(memory) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclGroupStart() {
  ++group_depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  if (group_depth == 0) return ncclInvalidUsage;
  return --group_depth > 0 ? ncclSuccess : enqueue_group(std::exchange(group, {}));
}

ncclResult_t ncclAllGather(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  return add_collective(comm, stream, {Kind::all_gather, count, type, ncclSum, 0, false}, in, out);
}
ncclResult_t ncclReduceScatter(const void* in, void* out, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return add_collective(comm, stream, {Kind::reduce_scatter, count, type, op, 0, false}, in, out);
}
ncclResult_t ncclAllReduce(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  return add_collective(comm, stream, {Kind::all_reduce, count, type, op, 0, false}, in, out);
}
ncclResult_t ncclBroadcast(const void* in, void* out, std::size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  return add_collective(comm, stream, {Kind::broadcast, count, type, ncclSum, root, false}, in, out);
}
ncclResult_t ncclSend(const void* from, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  const Message message{count, type, is_captured(stream)};
  fakecuda::refuse_host_memory("ncclSend", "what is sent", from, bytes_of(message));
  const bool registered = place_in(*comm, from).registration >= 0;
  return add_part({comm->in_graphs, {comm, peer, -1}, stream, "ncclSend", [=] {
                     return message_out(comm, registered, from, message, peer);
                   }});
}
ncclResult_t ncclRecv(void* to, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  const Message message{count, type, is_captured(stream)};
  fakecuda::refuse_host_memory("ncclRecv", "what is received", to, bytes_of(message));
  const bool registered = place_in(*comm, to).registration >= 0;
  return add_part({comm->in_graphs, {comm, -1, peer}, stream, "ncclRecv", [=] {
                     return message_in(comm, registered, to, message, peer);
                   }});
}
