// Streams, events and graphs, and the one place where anything runs: run_until().
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "fakecuda/device.hpp"

using Clock = std::chrono::steady_clock;

namespace fakecuda {
namespace {

/// A moment of a stream, which has passed when all before it has run.
struct Moment {
  bool passed = false;
  Clock::time_point when;
};

struct Entry {
  std::string what;
  Work work;                        ///< empty for the two below
  std::shared_ptr<Moment> awaited;  ///< nothing behind it runs before this has passed
  std::shared_ptr<Moment> passes;
};

struct Node {
  std::string what;
  std::function<Work()> begin;
  std::shared_ptr<CUevent_st> records;  ///< an event that each launch records
  std::vector<std::size_t> after;
};

}  // namespace
}  // namespace fakecuda

struct CUgraph_st {
  std::vector<fakecuda::Node> nodes;
};
struct CUgraphExec_st {
  std::shared_ptr<const CUgraph_st> graph;
};

namespace fakecuda {
namespace {

struct Capture {
  std::shared_ptr<CUgraph_st> graph = std::make_shared<CUgraph_st>();
  CUstream_st* origin = nullptr;
  std::set<CUstream_st*> streams;
  cudaError_t broken = cudaSuccess;
};
using Tail = std::vector<std::size_t>;  ///< the nodes that the next one comes after

/// The legacy stream waits for all blocking streams of its device, and they wait for it.
enum class Kind : std::uint8_t { legacy, blocking, non_blocking };

}  // namespace
}  // namespace fakecuda

struct CUstream_st {
  int device = 0;
  fakecuda::Kind kind = fakecuda::Kind::non_blocking;
  std::deque<fakecuda::Entry> queue;
  std::shared_ptr<fakecuda::Capture> capture;
  fakecuda::Tail tail;
};

struct CUevent_st {
  int device = 0;
  bool timed = true;
  std::shared_ptr<fakecuda::Moment> last;
  std::shared_ptr<fakecuda::Capture> capture;  ///< it was last recorded in this capture, behind `tail`
  fakecuda::Tail tail;
};

namespace fakecuda {
namespace {

int from_environment(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::atoi(text) : otherwise;
}

/// All streams, under one lock. It is never destroyed, because static objects outlive main().
struct Device {
  std::recursive_mutex mutex;
  std::vector<CUstream_st*> streams;                          ///< in the order of their creation
  std::map<CUevent_st*, std::shared_ptr<CUevent_st>> events;  ///< a graph may hold one that is destroyed
  std::map<std::string, int> objects;
  std::mt19937_64 lot{static_cast<std::uint64_t>(from_environment("FAKECUDA_SEED", 1))};
  std::uint64_t calls = 0;  ///< by the host
};

Device& device() {
  static Device& d = *new Device;
  return d;
}

thread_local int this_device = 0;
thread_local cudaError_t last_error = cudaSuccess;

cudaError_t give(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

int device_count() {
  return from_environment("FAKECUDA_DEVICES", 8);
}

/// The legacy default stream of this thread's device.
CUstream_st* stream_of(cudaStream_t stream) {
  if (stream != nullptr && stream != cudaStreamLegacy) return stream;
  static std::map<int, CUstream_st*>& all = *new std::map<int, CUstream_st*>;
  CUstream_st*& mine = all[this_device];
  if (mine == nullptr) {
    mine = new CUstream_st{this_device, Kind::legacy, {}, {}, {}};
    device().streams.push_back(mine);
  }
  return mine;
}

bool exists(cudaEvent_t event) {
  return device().events.count(event) > 0;
}

bool may_run(const CUstream_st& stream) {
  if (stream.queue.empty()) return false;
  const Entry& head = stream.queue.front();
  return head.awaited == nullptr || head.awaited->passed;
}

/// Gives an entry that may run its turn. Returns what came of it; `waiting` also where nothing may run.
Turn run_one() {
  Device& d = device();
  std::vector<CUstream_st*> ready;
  for (CUstream_st* stream : d.streams)
    if (may_run(*stream)) ready.push_back(stream);
  std::shuffle(ready.begin(), ready.end(), d.lot);
  for (CUstream_st* stream : ready) {
    Entry& head = stream->queue.front();
    const Turn turn = head.work ? head.work() : Turn::done;
    if (turn == Turn::waiting) continue;
    if (turn == Turn::done) {
      if (head.passes != nullptr) *head.passes = {true, Clock::now()};
      stream->queue.pop_front();
    }
    return turn;
  }
  return Turn::waiting;
}

std::string what_waits() {
  std::string text;
  for (const CUstream_st* stream : device().streams)
    if (!stream->queue.empty())
      text += "\n  a stream of " + std::to_string(stream->queue.size()) + " entries: " +
              (stream->queue.front().awaited != nullptr ? "waits for an event" : stream->queue.front().what);
  return text.empty() ? " (no stream has anything to run)" : text;
}

/// Runs queues until `reached`. Other ranks may let it wait, but not for ever.
template <class Reached>
void run_until(std::unique_lock<std::recursive_mutex>& lock, const char* call, const Reached& reached) {
  auto deadline = Clock::now() + patience();
  const Access access;
  while (!reached()) {
    if (run_one() != Turn::waiting) {
      deadline = Clock::now() + patience();
      continue;
    }
    if (Clock::now() > deadline) fail(std::string(call) + " waits for ever:" + what_waits());
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(20));
    lock.lock();
  }
}

/// A device goes on while its host waits for another one. Here nothing would, and the two would wait for each
/// other. So what has been enqueued runs when this process has made no call for a while.
void run_while_host_is_away() {
  Device& d = device();
  std::uint64_t seen = 0;
  for (;;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    const std::unique_lock lock(d.mutex);
    const bool away = d.calls == seen;
    seen = d.calls;
    if (!away || std::none_of(d.streams.begin(), d.streams.end(), [](auto* s) { return may_run(*s); }))
      continue;
    const Access access;
    while (run_one() != Turn::waiting) {
    }
  }
}

/// The lock of a call of the host.
std::unique_lock<std::recursive_mutex> called() {
  Device& d = device();
  std::unique_lock lock(d.mutex);
  ++d.calls;
  static const bool started = [] {
    std::thread(run_while_host_is_away).detach();
    return true;
  }();
  static_cast<void>(started);
  return lock;
}

cudaError_t break_capture(Capture& capture, cudaError_t error) {
  capture.broken = error;
  return error;
}

cudaError_t add_node(CUstream_st& stream, Node node) {
  if (stream.capture->broken != cudaSuccess) return cudaErrorStreamCaptureInvalidated;
  node.after = stream.tail;
  stream.capture->graph->nodes.push_back(std::move(node));
  stream.tail = {stream.capture->graph->nodes.size() - 1};
  return cudaSuccess;
}

/// Lets a stream wait for all that stands on another one now.
void wait_for(CUstream_st& stream, CUstream_st& other) {
  if (other.queue.empty()) return;
  const auto moment = std::make_shared<Moment>();
  other.queue.push_back({"a mark", {}, nullptr, moment});
  stream.queue.push_back({"the wait between the legacy stream and a blocking one", {}, moment, nullptr});
}

cudaError_t enqueue_entry(CUstream_st& stream, Entry entry) {
  if (stream.kind != Kind::non_blocking) {
    const Kind others = stream.kind == Kind::legacy ? Kind::blocking : Kind::legacy;
    for (CUstream_st* other : device().streams)
      if (other->kind == others && other->device == stream.device) wait_for(stream, *other);
  }
  stream.queue.push_back(std::move(entry));
  return cudaSuccess;
}

/// Gives CUDA's error for a use of the legacy stream while a blocking stream of its device is captured: the
/// one would have to wait for the other.
cudaError_t refuse_implicit_wait(const CUstream_st& stream) {
  cudaError_t error = cudaSuccess;
  if (stream.kind == Kind::legacy)
    for (CUstream_st* other : device().streams)
      if (other->kind == Kind::blocking && other->device == stream.device && other->capture != nullptr)
        error = break_capture(*other->capture, cudaErrorStreamCaptureImplicit);
  return give(error);
}

bool any_capture() {
  return std::any_of(device().streams.begin(), device().streams.end(),
                     [](auto* s) { return s->capture != nullptr; });
}

/// The turns of one launch of a graph: nodes in any order that their edges allow.
class Launch {
 public:
  explicit Launch(std::shared_ptr<const CUgraph_st> graph)
      : graph_(std::move(graph)), runs_(graph_->nodes.size()) {
    for (std::size_t i = 0; i < runs_.size(); ++i)
      if (const auto& event = graph_->nodes[i].records; event != nullptr) {
        runs_[i].moment = std::make_shared<Moment>();
        event->last = runs_[i].moment;
        event->capture = nullptr;
      }
  }

  Turn turn() {
    std::vector<std::size_t> ready;
    bool all = true;
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      if (runs_[i].done) continue;
      all = false;
      const auto& after = graph_->nodes[i].after;
      if (std::all_of(after.begin(), after.end(), [&](std::size_t n) { return runs_[n].done; }))
        ready.push_back(i);
    }
    if (all) return Turn::done;
    std::shuffle(ready.begin(), ready.end(), device().lot);
    for (const std::size_t i : ready) {
      Run& run = runs_[i];
      const Node& node = graph_->nodes[i];
      if (!run.work && node.begin) run.work = node.begin();
      const Turn turn = run.work ? run.work() : Turn::done;
      if (turn == Turn::waiting) continue;
      if (turn == Turn::done) {
        run.done = true;
        run.work = nullptr;
        if (run.moment != nullptr) *run.moment = {true, Clock::now()};
      }
      return Turn::some;
    }
    return Turn::waiting;
  }

 private:
  struct Run {
    bool done = false;
    Work work;
    std::shared_ptr<Moment> moment;
  };
  std::shared_ptr<const CUgraph_st> graph_;
  std::vector<Run> runs_;
};

void tell_what_is_left() {
  for (const auto& [kind, count] : device().objects)
    if (count != 0) std::fprintf(stderr, "fakecuda: %d %s left at the end\n", count, kind.c_str());
}

}  // namespace

void fail(const std::string& line) {
  std::fprintf(stderr, "fakecuda: %s\n", line.c_str());
  std::abort();
}

int current_device() {
  return this_device;
}

int device_of(cudaStream_t stream) {
  const auto lock = called();
  return stream_of(stream)->device;
}

bool is_to_fail(const std::string& call) {
  const char* const fault = std::getenv("FAKECUDA_FAULT");
  if (fault == nullptr) return false;
  const std::string text = fault;
  const std::size_t colon = text.find(':');
  if (text.substr(0, colon) != call) return false;
  static std::atomic<int> calls = 0;  // a process has one fault that counts
  return colon == std::string::npos || ++calls >= std::atoi(fault + colon + 1);
}

std::chrono::seconds patience() {
  return std::chrono::seconds(from_environment("FAKECUDA_DEADLINE", 100));
}

std::uint64_t draw(std::uint64_t n) {
  return std::uniform_int_distribution<std::uint64_t>(0, n - 1)(device().lot);
}

void count_object(const char* kind, int change) {
  const auto lock = called();
  device().objects[kind] += change;
  static const bool told = std::getenv("FAKECUDA_LEAKS") != nullptr && std::atexit(tell_what_is_left) == 0;
  static_cast<void>(told);
}

int objects(const char* kind) {
  const auto lock = called();
  return device().objects[kind];
}

cudaError_t enqueue(cudaStream_t on, std::string what, std::function<Work()> begin) {
  const auto lock = called();
  const CUstream_st& stream = *stream_of(on);
  if (stream.device != this_device) return give(cudaErrorInvalidResourceHandle);
  return enqueue_copy(on, std::move(what), std::move(begin));
}

cudaError_t enqueue_copy(cudaStream_t on, std::string what, std::function<Work()> begin) {
  const auto lock = called();
  CUstream_st& stream = *stream_of(on);
  if (const cudaError_t error = refuse_implicit_wait(stream); error != cudaSuccess) return error;
  if (stream.kind == Kind::legacy && any_capture())
    fail(what + " goes to the legacy stream while another one is captured");
  if (stream.capture != nullptr)
    return give(add_node(stream, {std::move(what), std::move(begin), nullptr, {}}));
  return give(enqueue_entry(stream, {std::move(what), begin(), nullptr, nullptr}));
}

cudaError_t enqueue_call(cudaStream_t stream, std::string what, std::function<void()> call) {
  return enqueue(stream, std::move(what), [call = std::move(call)] {
    return Work([call] {
      call();
      return Turn::done;
    });
  });
}

cudaError_t refuse_capture(cudaStream_t on) {
  const auto lock = called();
  const CUstream_st& stream = *stream_of(on);
  if (stream.capture == nullptr) return cudaSuccess;
  return give(break_capture(*stream.capture, cudaErrorStreamCaptureUnsupported));
}

void wait_for_device() {
  auto lock = called();
  run_until(lock, "a wait for the device", [] {
    const auto& all = device().streams;
    return std::all_of(all.begin(), all.end(),
                       [](auto* s) { return s->queue.empty() || s->device != this_device; });
  });
}

cudaError_t drain(cudaStream_t on) {
  auto lock = called();
  CUstream_st& stream = *stream_of(on);
  if (const cudaError_t error = refuse_implicit_wait(stream); error != cudaSuccess) return error;
  if (stream.capture != nullptr)
    return give(break_capture(*stream.capture, cudaErrorStreamCaptureUnsupported));
  run_until(lock, "cudaStreamSynchronize", [&] { return stream.queue.empty(); });
  return cudaSuccess;
}

}  // namespace fakecuda

using namespace fakecuda;

cudaError_t cudaGetDeviceCount(int* count) {
  *count = device_count();
  return give(*count > 0 ? cudaSuccess : cudaErrorNoDevice);
}

cudaError_t cudaSetDevice(int number) {
  if (number < 0 || number >= device_count()) return give(cudaErrorInvalidDevice);
  this_device = number;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* number) {
  *number = this_device;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int number) {
  *properties = {};
  properties->uuid.bytes[15] = static_cast<char>(number);
  std::snprintf(properties->name, sizeof properties->name, "no GPU: the preset fakecuda");
  properties->major = 9;
  properties->multiProcessorCount = 132;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int /*number*/) {
  if (which != cudaDevAttrComputeCapabilityMajor && which != cudaDevAttrComputeCapabilityMinor)
    return give(cudaErrorInvalidValue);
  *value = which == cudaDevAttrComputeCapabilityMajor ? 9 : 0;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  {
    const auto lock = called();
    for (const CUstream_st* stream : device().streams)
      if (stream->capture != nullptr)
        return give(break_capture(*stream->capture, cudaErrorStreamCaptureUnsupported));
  }
  wait_for_device();
  return cudaSuccess;
}

cudaError_t cudaGetLastError() {
  return std::exchange(last_error, cudaSuccess);
}

const char* cudaGetErrorString(cudaError_t error) {
  static thread_local std::string text;
  text = "CUDA's error " + std::to_string(static_cast<int>(error)) + " of the preset fakecuda";
  return text.c_str();
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  if ((flags != cudaStreamDefault && flags != cudaStreamNonBlocking) || priority > 0 || priority < -5)
    return give(cudaErrorInvalidValue);
  const auto lock = called();
  const Kind kind = flags == cudaStreamNonBlocking ? Kind::non_blocking : Kind::blocking;
  *stream = new CUstream_st{this_device, kind, {}, {}, {}};
  device().streams.push_back(*stream);
  count_object("streams", 1);
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}

cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) {
  const auto lock = called();
  *flags = stream_of(stream)->kind == Kind::non_blocking ? cudaStreamNonBlocking : cudaStreamDefault;
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const auto lock = called();
  auto& streams = device().streams;
  const auto found = std::find(streams.begin(), streams.end(), stream);
  if (found == streams.end()) return give(cudaErrorInvalidResourceHandle);
  if (!stream->queue.empty()) fail("a stream is destroyed with " + stream->queue.front().what + " on it");
  if (stream->capture != nullptr) fail("a stream is destroyed while it is captured");
  streams.erase(found);
  delete stream;
  count_object("streams", -1);
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return drain(stream);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t on, cudaEvent_t event, unsigned flags) {
  const auto lock = called();
  if (flags != 0) return give(cudaErrorInvalidValue);
  if (!exists(event)) return give(cudaErrorInvalidResourceHandle);
  CUstream_st& stream = *stream_of(on);
  if (const cudaError_t error = refuse_implicit_wait(stream); error != cudaSuccess) return error;
  if (event->capture != nullptr) {
    if (event->capture->broken != cudaSuccess) return give(cudaErrorStreamCaptureInvalidated);
    if (event->capture->origin == nullptr) return give(cudaErrorCapturedEvent);  // that capture has ended
    if (stream.capture == nullptr) {
      stream.capture = event->capture;
      stream.capture->streams.insert(&stream);
      stream.tail = event->tail;
      return cudaSuccess;
    }
    if (stream.capture != event->capture)
      return give(break_capture(*stream.capture, cudaErrorStreamCaptureMerge));
    std::set<std::size_t> both(stream.tail.begin(), stream.tail.end());
    both.insert(event->tail.begin(), event->tail.end());
    stream.tail.assign(both.begin(), both.end());
    return cudaSuccess;
  }
  if (stream.capture != nullptr) return give(break_capture(*stream.capture, cudaErrorStreamCaptureIsolation));
  if (event->last == nullptr) return cudaSuccess;  // never recorded: CUDA does not wait, either
  return give(enqueue_entry(stream, {"the wait for an event", {}, event->last, nullptr}));
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  const auto lock = called();
  *event = new CUevent_st{this_device, (flags & cudaEventDisableTiming) == 0, {}, {}, {}};
  device().events.emplace(*event, *event);
  count_object("events", 1);
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const auto lock = called();
  if (!exists(event)) return give(cudaErrorInvalidResourceHandle);
  event->capture = nullptr;  // whose graph may hold the event
  device().events.erase(event);
  count_object("events", -1);
  return cudaSuccess;
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t on, unsigned flags) {
  const auto lock = called();
  CUstream_st& stream = *stream_of(on);
  if (const cudaError_t error = refuse_implicit_wait(stream); error != cudaSuccess) return error;
  if (!exists(event) || stream.device != event->device) return give(cudaErrorInvalidResourceHandle);
  if (stream.capture != nullptr && flags == cudaEventRecordExternal)
    return give(add_node(stream, {"an event", {}, device().events.at(event), {}}));
  if (stream.capture != nullptr) {
    event->capture = stream.capture;
    event->tail = stream.tail;
    return cudaSuccess;
  }
  if (flags == cudaEventRecordExternal) return give(cudaErrorIllegalState);
  event->capture = nullptr;
  event->last = std::make_shared<Moment>();
  return give(enqueue_entry(stream, {"an event", {}, nullptr, event->last}));
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault);
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  const auto lock = called();
  if (!exists(event)) return give(cudaErrorInvalidResourceHandle);
  if (event->capture != nullptr) return give(cudaErrorCapturedEvent);
  if (event->last == nullptr || event->last->passed) return cudaSuccess;
  // Who asks again and again must see it pass.
  const Access access;
  run_one();
  return event->last->passed ? cudaSuccess : give(cudaErrorNotReady);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  auto lock = called();
  if (!exists(event)) return give(cudaErrorInvalidResourceHandle);
  if (event->capture != nullptr) return give(cudaErrorCapturedEvent);
  const auto moment = event->last;
  if (moment != nullptr) run_until(lock, "cudaEventSynchronize", [&] { return moment->passed; });
  return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t begin, cudaEvent_t end) {
  const auto lock = called();
  *ms = 0;
  if (!exists(begin) || !exists(end) || !begin->timed || !end->timed || begin->last == nullptr ||
      end->last == nullptr)
    return give(cudaErrorInvalidResourceHandle);
  if (!begin->last->passed || !end->last->passed) return give(cudaErrorNotReady);
  *ms = std::chrono::duration<float, std::milli>(end->last->when - begin->last->when).count();
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t on, cudaStreamCaptureMode mode) {
  const auto lock = called();
  CUstream_st& stream = *stream_of(on);
  if (stream.kind == Kind::legacy) return give(cudaErrorStreamCaptureUnsupported);
  if (stream.capture != nullptr || mode != cudaStreamCaptureModeRelaxed) return give(cudaErrorIllegalState);
  stream.capture = std::make_shared<Capture>();
  stream.capture->origin = &stream;
  stream.capture->streams = {&stream};
  stream.tail.clear();
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t on, cudaGraph_t* graph) {
  const auto lock = called();
  *graph = nullptr;
  CUstream_st& stream = *stream_of(on);
  const auto capture = stream.capture;
  if (capture == nullptr) return give(cudaErrorIllegalState);
  if (capture->origin != &stream) return give(break_capture(*capture, cudaErrorStreamCaptureUnmatched));
  // All that was put on other streams must come before the origin's end.
  std::vector<bool> joined(capture->graph->nodes.size());
  Tail open = stream.tail;
  while (!open.empty()) {
    const std::size_t node = open.back();
    open.pop_back();
    if (joined[node]) continue;
    joined[node] = true;
    const auto& after = capture->graph->nodes[node].after;
    open.insert(open.end(), after.begin(), after.end());
  }
  cudaError_t error = capture->broken != cudaSuccess ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
  for (CUstream_st* other : capture->streams) {
    if (error == cudaSuccess &&
        std::any_of(other->tail.begin(), other->tail.end(), [&](std::size_t n) { return !joined[n]; }))
      error = cudaErrorStreamCaptureUnjoined;
    other->capture = nullptr;
    other->tail.clear();
  }
  capture->origin = nullptr;
  std::vector<Node> nodes = std::exchange(capture->graph->nodes, {});  // events may keep the capture
  if (error != cudaSuccess) return give(error);
  *graph = new CUgraph_st{std::move(nodes)};
  count_object("graphs", 1);
  return cudaSuccess;
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t on, cudaStreamCaptureStatus* status, unsigned long long* id,
                                     cudaGraph_t* graph, const cudaGraphNode_t**, const cudaGraphEdgeData**,
                                     std::size_t*) {
  const auto lock = called();
  const CUstream_st& stream = *stream_of(on);
  *status = stream.capture != nullptr ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  if (id != nullptr) *id = 1;
  if (graph != nullptr) *graph = stream.capture != nullptr ? stream.capture->graph.get() : nullptr;
  return cudaSuccess;
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  static thread_local cudaStreamCaptureMode own = cudaStreamCaptureModeGlobal;
  std::swap(own, *mode);
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long /*flags*/) {
  *executable = new CUgraphExec_st{std::make_shared<const CUgraph_st>(*graph)};
  count_object("instantiated graphs", 1);
  return cudaSuccess;
}

cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) {
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  if (is_to_fail("cudaGraphLaunch")) return give(cudaErrorLaunchFailure);
  return enqueue(stream, "a graph", [graph = executable->graph] {
    return Work([launch = std::make_shared<Launch>(graph)] { return launch->turn(); });
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  count_object("graphs", -1);
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  delete executable;
  count_object("instantiated graphs", -1);
  return cudaSuccess;
}
