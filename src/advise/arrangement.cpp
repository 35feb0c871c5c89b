#include "advise/arrangement.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "base/check.hpp"
#include "compile/stages.hpp"

namespace weft::advise {
namespace {

std::vector<int> divisors(int n) {
  std::vector<int> list;
  for (int d = 1; d <= n / d; ++d) {
    if (n % d != 0) continue;
    list.push_back(d);
    if (d != n / d) list.push_back(n / d);
  }
  std::sort(list.begin(), list.end());
  return list;
}

/// Whether `check` throws no Error: the deck's own checks say what divides.
template <class Check>
bool passes(const Check& check) {
  try {
    check();
  } catch (const Error&) {
    return false;
  }
  return true;
}

class Enumeration {
 public:
  Enumeration(const Deck& deck, int world, int per_host, const Kept& kept)
      : deck_(deck), world_(world), per_host_(per_host), kept_(kept) {}

  std::vector<Arrangement> run() {
    for (const int tensor : divisors(world_)) {
      if (tensor > per_host_ || per_host_ % tensor != 0) continue;
      for (const int context : divisors(world_ / tensor))
        for (const int pipe : divisors(world_ / tensor / context)) add_meshes(tensor, context, pipe);
    }
    return std::move(found_);
  }

 private:
  void add_meshes(int tensor, int context, int pipe) {
    const int batch_ranks = world_ / tensor / context / pipe;
    if (deck_.data.global_batch % batch_ranks != 0) return;
    const std::int64_t section = deck_.data.seq / (2L * context * tensor);
    constexpr std::int64_t short_section = 256;
    const bool needed = batch_ranks * context > deck_.data.global_batch;
    if (context > 1 && section < short_section && !needed) return;
    Arrangement a;
    add_pipe(a, pipe, [&](Arrangement& with_pipe) {
      for (const int replica : replicas(batch_ranks, context * tensor)) {
        with_pipe.mesh = mesh(pipe, replica, batch_ranks / replica, context, tensor);
        if (passes([&] { resolve_mesh(arranged(deck_, with_pipe), world_); }))
          add_rest(with_pipe, batch_ranks);
      }
    });
  }

  static std::vector<MeshAxis> mesh(int pipe, int replica, int data, int context, int tensor) {
    std::vector<MeshAxis> axes;
    const auto add = [&](std::string_view name, int size) {
      if (size > 1) axes.push_back({std::string(name), size});
    };
    add(pipe_axis, pipe);
    add(replica_axis, replica);
    axes.push_back({std::string(data_axis), data});
    add(context_axis, context);
    add(tensor_axis, tensor);
    return axes;
  }

  /// State may be repeated by groups of hosts: of one host, and of 16.
  std::vector<int> replicas(int batch_ranks, int inner) const {
    std::vector<int> list{1};
    for (const std::int64_t hosts : {1, 16}) {
      const std::int64_t ranks = per_host_ * hosts, data = ranks / inner;
      if (data > 1 && ranks % inner == 0 && data < batch_ranks && batch_ranks % data == 0)
        list.push_back(static_cast<int>(batch_ranks / data));
    }
    return list;
  }

  /// Calls `next` with each schedule that a pipe of so many ranks can have.
  template <class Next>
  void add_pipe(Arrangement& a, int pipe, const Next& next) const {
    a.schedule = deck_.pipeline.schedule;
    a.chunks = deck_.pipeline.chunks;
    if (pipe == 1) {
      next(a);
      return;
    }
    std::vector<std::pair<PipelineKind, std::int64_t>> choices;
    if (kept_.schedule && kept_.chunks) {
      choices.emplace_back(a.schedule, a.chunks);
    } else {
      for (const PipelineKind kind : {PipelineKind::one_f_one_b, PipelineKind::zb_h1})
        choices.emplace_back(kind, 1);
      for (const std::int64_t chunks : {2, 3, 4, 6, 8})
        choices.emplace_back(PipelineKind::interleaved, chunks);
      choices.emplace_back(PipelineKind::zbv, 2);
      const std::pair given(a.schedule, a.chunks);
      if (std::find(choices.begin(), choices.end(), given) == choices.end()) choices.push_back(given);
    }
    for (const auto& [kind, chunks] : choices) {
      if ((kept_.schedule && kind != deck_.pipeline.schedule) ||
          (kept_.chunks && chunks != deck_.pipeline.chunks) || pipe * chunks > compile::most_stages(deck_) ||
          !has_layers_for(pipe * chunks))
        continue;
      a.schedule = kind;
      a.chunks = chunks;
      next(a);
    }
  }

  /// Whether the deck's own list of layers, if it has one, is for so many stages.
  bool has_layers_for(std::int64_t stages) const {
    const auto given = static_cast<std::int64_t>(deck_.pipeline.layers.size());
    return given == 0 || given == stages;
  }

  void add_rest(Arrangement a, int batch_ranks) {
    for (const ShardMode mode : modes(a)) {
      a.mode = mode;
      add_batches(a, batch_ranks);
    }
  }

  void add_batches(Arrangement a, int batch_ranks) {
    for (const std::int64_t batch : batches(batch_ranks)) {
      a.batch = batch;
      const std::int64_t microbatches = deck_.data.global_batch / batch_ranks / batch;
      const bool pipe = a.size(pipe_axis) > 1;
      // Ragged groups of microbatches idle much (pipe::make_pipeline_schedule).
      if (pipe && a.schedule == PipelineKind::interleaved && microbatches % a.size(pipe_axis) != 0) continue;
      if (pipe && idle_share(a, microbatches) > most_idle) continue;
      for (const Recompute recompute : recomputes()) {
        a.recompute = recompute;
        found_.push_back(a);
      }
    }
  }

  /// The idle time of a rank over its work, by the formulas of docs/mesh.md.
  static double idle_share(const Arrangement& a, std::int64_t microbatches) {
    const double share = (a.size(pipe_axis) - 1.0) / static_cast<double>(a.chunks * microbatches);
    return splits_backward(a.schedule) ? share / 3 : share;
  }
  static constexpr double most_idle = 0.5;  // some other arrangement is better

  std::vector<std::int64_t> batches(int batch_ranks) const {
    std::vector<std::int64_t> list;
    std::set<std::int64_t> sizes{deck_.data.batch};
    if (!kept_.batch) sizes.insert({1, 2, 4, 8, 16});
    for (const std::int64_t size : sizes)
      if (deck_.data.global_batch / batch_ranks % size == 0) list.push_back(size);
    return list;
  }
  std::vector<ShardMode> modes(const Arrangement& a) const {
    if (kept_.mode) return {deck_.parallel.mode};
    if (a.size(data_axis) * a.size(context_axis) == 1) return {ShardMode::fsdp};  // nothing is cut
    return {ShardMode::fsdp, ShardMode::zero2};
  }
  std::vector<Recompute> recomputes() const {
    if (kept_.recompute) return {deck_.schedule.recompute};
    return {Recompute::none, Recompute::selective, Recompute::full};
  }

  const Deck& deck_;
  const int world_, per_host_;
  const Kept kept_;
  std::vector<Arrangement> found_;
};

/// The keys of an arrangement but for the mesh, and where Kept has them.
constexpr std::array keys{std::pair("parallel.mode", &Kept::mode),
                          std::pair("pipeline.schedule", &Kept::schedule),
                          std::pair("pipeline.chunks", &Kept::chunks), std::pair("data.batch", &Kept::batch),
                          std::pair("schedule.recompute", &Kept::recompute)};

}  // namespace

int Arrangement::size(std::string_view axis) const {
  for (const MeshAxis& a : mesh)
    if (a.name == axis) return a.size;
  return 1;
}

Deck arranged(const Deck& deck, const Arrangement& a) {
  Deck changed = deck;
  changed.parallel.mesh = a.mesh;
  changed.parallel.mode = a.mode;
  changed.pipeline.schedule = a.schedule;
  changed.pipeline.chunks = a.chunks;
  changed.data.batch = a.batch;
  changed.schedule.recompute = a.recompute;
  return changed;
}

Arrangement arrangement_of(const Deck& deck, int world) {
  const Mesh mesh = resolve_mesh(deck, world);
  accumulation(deck, mesh.batch_ranks());
  if (mesh.size(pipe_axis) > 1) compile::layers_of_stages(deck, mesh);
  Arrangement a;
  for (const MeshAxis& axis : mesh.axes())
    if (axis.size > 1 || axis.name == data_axis) a.mesh.push_back(axis);
  a.mode = deck.parallel.mode;
  a.schedule = deck.pipeline.schedule;
  a.chunks = deck.pipeline.chunks;
  a.batch = deck.data.batch;
  a.recompute = deck.schedule.recompute;
  return a;
}

std::vector<std::string> settings(const Arrangement& a) {
  std::string axes;
  for (const MeshAxis& axis : a.mesh)
    axes += fmt::format("{} {} = {}", axes.empty() ? "" : ",", axis.name, axis.size);
  std::vector<std::string> list{fmt::format("parallel.mesh={{{} }}", axes),
                                fmt::format("parallel.mode={}", name_of(a.mode))};
  if (a.size(pipe_axis) > 1) {
    list.push_back(fmt::format("pipeline.schedule={}", name_of(a.schedule)));
    list.push_back(fmt::format("pipeline.chunks={}", a.chunks));
  }
  list.push_back(fmt::format("data.batch={}", a.batch));
  list.push_back(fmt::format("schedule.recompute={}", name_of(a.recompute)));
  return list;
}

std::string mesh_text(const Arrangement& a) {
  std::string text;
  for (const MeshAxis& axis : a.mesh)
    text += fmt::format("{}{} {}", text.empty() ? "" : " x ", axis.name, axis.size);
  return text;
}

std::string schedule_text(const Arrangement& a) {
  if (a.size(pipe_axis) == 1) return "";
  return a.chunks == 1 || a.schedule == PipelineKind::zbv
             ? std::string(name_of(a.schedule))
             : fmt::format("{} x {}", name_of(a.schedule), a.chunks);
}

std::string short_text(const Arrangement& a) {
  return fmt::format("{}, {}, batch {}, recompute {}", mesh_text(a), name_of(a.mode), a.batch,
                     name_of(a.recompute));
}

Kept keys_given(const Deck& deck) {
  Kept kept;
  for (const auto& [key, member] : keys)
    kept.*member = std::any_of(deck.places.begin(), deck.places.end(),
                               [key = key](const KeyPlace& given) { return given.key == key; });
  return kept;
}

Kept kept_keys(const std::vector<std::string>& names) {
  Kept kept;
  for (const std::string& name : names) {
    const auto known = std::find_if(keys.begin(), keys.end(), [&](const auto& k) { return name == k.first; });
    WEFT_VALIDATE(known != keys.end(),
                  "--keep {}: no such key (parallel.mode, pipeline.schedule, pipeline.chunks, data.batch, "
                  "schedule.recompute)",
                  name);
    kept.*(known->second) = true;
  }
  return kept;
}

std::vector<Arrangement> arrangements(const Deck& deck, int world, int per_host, const Kept& kept) {
  return Enumeration(deck, world, per_host, kept).run();
}

}  // namespace weft::advise
