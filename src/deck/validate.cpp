// Checks a deck (declared in deck.hpp) for what no single key can show.
#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "deck/assign.hpp"
#include "deck/deck.hpp"
#include "deck/limits.hpp"
#include "deck/problems.hpp"
#include "deck/schema.hpp"
#include "deck/suggest.hpp"

namespace weft {
namespace {

/// Makes the checks that involve more than one key, with one function for each table.
class Validator {
 public:
  Validator(const Deck& deck, deck::Problems& problems) : deck_(deck), problems_(problems) {}

  void run() {
    const auto& name = deck_.run.name;
    check(!name.empty() && name != "." && name != ".." && name.find('/') == name.npos, "run.name",
          "'{}' cannot name a directory (no '/', not empty); use run.dir for a path", name);
    check(!deck_.run.dir.empty(), "run.dir", "empty (the run needs a directory)");
  }

  void model() {
    const auto& m = deck_.model;
    const bool whole = m.dim % m.heads == 0;
    check(whole, "model.heads", "{} heads do not divide model.dim = {} (a head is dim / heads wide){}",
          m.heads, m.dim, instead(deck::nearest_heads(m)));
    if (whole)
      check(m.dim / m.heads % 2 == 0, "model.heads",
            "{} heads of model.dim = {} are {} wide (rotary positions turn pairs, so the width is even){}",
            m.heads, m.dim, m.dim / m.heads, instead(deck::nearest_heads(m)));
    check(m.heads % m.kv_heads == 0, "model.kv_heads",
          "{} does not divide model.heads = {} (each serves a group of query heads){}", m.kv_heads, m.heads,
          instead(nearest_divisor(m.heads, m.kv_heads)));
    const auto& rope = m.rope_scaling;
    check(rope.factor == 1 || rope.low_freq_factor < rope.high_freq_factor,
          "model.rope_scaling.low_freq_factor",
          "{} is not below high_freq_factor = {} (the change is smooth between the two)",
          rope.low_freq_factor, rope.high_freq_factor);
  }

  void data() {
    const auto& d = deck_.data;
    const std::int64_t below = d.global_batch / d.batch * d.batch, above = below + d.batch;
    const bool may_grow = deck::find_key("data.global_batch")->range.holds(static_cast<double>(above));
    check(d.global_batch % d.batch == 0, "data.global_batch",
          "{} is not a multiple of data.batch = {} (sequences a microbatch); use {}", d.global_batch, d.batch,
          may_grow ? above : below);
    check(d.synthetic || !d.train.empty(), "data.train",
          "missing (no tokens to train on); name a .bin file, or set data.synthetic = true");
    check(!d.synthetic || !d.document_mask, "data.document_mask",
          "synthetic tokens are no documents; leave it out, or name token files in data.train");
    for (const auto& path : d.train)
      check(!path.empty(), "data.train", "an empty path (a token file is named by its path)");
    for (const auto& path : d.valid)
      check(!path.empty(), "data.valid", "an empty path (a token file is named by its path)");
    // A deck with token files may be run on synthetic tokens for once.
    const bool validates = d.synthetic || !d.valid.empty();
    check(validates || d.valid_every == 0, "data.valid_every",
          "{} has no effect (data.valid names no file); give one, or remove the key", d.valid_every);
    check(validates || d.valid_sequences == 0, "data.valid_sequences",
          "{} has no effect (data.valid names no file); give one, or remove the key", d.valid_sequences);
  }

  void optimizer() {
    const auto& o = deck_.optimizer;
    const auto steps = deck_.run.steps;
    check(o.min_lr < o.lr, "optimizer.min_lr",
          "{} is not below optimizer.lr = {} (the rate decays from lr to min_lr)", o.min_lr, o.lr);
    check(o.decay != LrDecay::constant || o.min_lr == 0 || is_set("optimizer.decay"), "optimizer.min_lr",
          "{} has no effect (optimizer.decay is 'constant'); set another decay, or remove the key", o.min_lr);
    check(o.warmup <= steps, "optimizer.warmup",
          "{} steps are more than run.steps = {} (the peak is never reached)", o.warmup, steps);
    if (o.decay == LrDecay::wsd)
      check(o.warmup > steps || o.decay_steps <= steps - o.warmup, "optimizer.decay_steps",
            "{} steps do not fit after the warm-up (run.steps = {}, warmup = {}); use at most {}",
            o.decay_steps, steps, o.warmup, steps - o.warmup);
    else
      check(o.decay_steps == 0, "optimizer.decay_steps",
            "{} has no effect (optimizer.decay is '{}'); set decay = \"wsd\", or remove the key",
            o.decay_steps, name_of(o.decay));
  }

  void parallel() {
    int open = 0;
    for (const auto& axis : deck_.parallel.mesh) open += axis.size == 0;
    check(open <= 1, "parallel.mesh", "{} axes of size 0 (only one can take the ranks that remain)", open);
  }

  void pipeline() {
    const auto& p = deck_.pipeline;
    const bool v = p.schedule == PipelineKind::zbv;
    check(!v || p.chunks == 2, "pipeline.chunks",
          "zbv has two stages a rank, not {}; set pipeline.chunks = 2, or another pipeline.schedule",
          p.chunks);
    check(
        v || serves_chunks(p.schedule, p.chunks), "pipeline.chunks",
        "{} stages a rank need another schedule than {}; set pipeline.schedule = \"interleaved\", or chunks "
        "= 1",
        p.chunks, name_of(p.schedule));
    if (p.layers.empty()) return;
    std::int64_t all = 0;
    for (const std::int64_t layers : p.layers) all += layers;
    check(all == deck_.model.layers, "pipeline.layers", "{} layers in all, the model has {} (model.layers)",
          all, deck_.model.layers);
    for (std::size_t stage = 1; stage + 1 < p.layers.size(); ++stage)
      check(p.layers[stage] > 0, "pipeline.layers",
            "stage {} has no layer (only the first stage, with the embedding, and the last, with the head, "
            "can do without)",
            stage);
  }

  /// Checks what is computed with in fp32: there a small number would be 0, and a large one infinite.
  void numbers() {
    const auto& m = deck_.model;
    const auto& o = deck_.optimizer;
    in_fp32("model.rope_theta", m.rope_theta);
    in_fp32("model.norm_eps", m.norm_eps);
    in_fp32("model.init_std", m.init_std);
    in_fp32("optimizer.lr", o.lr);
    in_fp32("optimizer.min_lr", o.min_lr);
    in_fp32("optimizer.beta2", o.beta2);
    in_fp32("optimizer.eps", o.eps);
    in_fp32("optimizer.weight_decay", o.weight_decay);
    in_fp32("optimizer.clip", o.clip);
    // beta1 needs no such check: kernels are given 1 - beta1, which is computed in double.
    check(static_cast<float>(o.beta2) < 1, "optimizer.beta2",
          "{} is 1 in fp32 (the second moment would never decay); use at most 0.9999999", o.beta2);
    rope_numbers();
  }

  void rope_numbers() {
    const auto& rope = deck_.model.rope_scaling;
    in_fp32("model.rope_scaling.factor", rope.factor);
    const bool low = in_fp32("model.rope_scaling.low_freq_factor", rope.low_freq_factor);
    const bool high = in_fp32("model.rope_scaling.high_freq_factor", rope.high_freq_factor);
    if (rope.factor == 1 || !low || !high || rope.low_freq_factor >= rope.high_freq_factor) return;
    check(static_cast<float>(rope.low_freq_factor) < static_cast<float>(rope.high_freq_factor),
          "model.rope_scaling.low_freq_factor",
          "{} equals high_freq_factor = {} in fp32 (the change between the two divides by their difference); "
          "use numbers that are further apart",
          rope.low_freq_factor, rope.high_freq_factor);
  }

  /// An empty pattern would match everything.
  void patterns() {
    for (const auto& pattern : deck_.precision.float8)
      check(!pattern.empty(), "precision.float8", "an empty pattern (layers are named as \"layers.*\")");
    for (const auto& pass : deck_.schedule.disable)
      check(!pass.empty(), "schedule.disable", "an empty name (passes are named as `weft plan` lists them)");
    for (const auto& pattern : deck_.schedule.buckets)
      check(!pattern.empty(), "schedule.buckets", "an empty pattern (units are named as \"layers.*\")");
    for (const auto& rule : deck_.schedule.recompute_ops) {
      check(!rule.empty(), "schedule.recompute_ops",
            "an empty rule (operations and modules are named as \"swiglu\" or \"@layers.*.ffn\")");
      check(!rule.ends_with('@'), "schedule.recompute_ops",
            "'{}' has no module behind its '@' (modules are named as \"@layers.*.ffn\")", rule);
    }
  }

  void schedule() {
    const auto& s = deck_.schedule;
    const ScheduleDeck unchanged;
    // With bucketing = auto the deck's buckets are one of the plans that are compared.
    check(s.bucketing == Bucketing::manual || s.bucketing == Bucketing::automatic ||
              s.buckets == unchanged.buckets || is_set("schedule.bucketing"),
          "schedule.buckets",
          "has no effect (schedule.bucketing is '{}'); set bucketing = \"manual\", or remove the key",
          name_of(s.bucketing));
    check(s.bucketing == Bucketing::automatic || s.regather != Regather::automatic ||
              is_set("schedule.bucketing"),
          "schedule.regather",
          "auto has no effect (schedule.bucketing is '{}', and only auto chooses what to keep); set always, "
          "never, or bucketing = \"auto\"",
          name_of(s.bucketing));
    // A deck that says what to recompute keeps its rules while a setting, an advice or a chosen mesh says
    // something else for once.
    check(s.recompute == Recompute::selective || s.recompute_ops == unchanged.recompute_ops ||
              is_given("schedule.recompute") || deck_.parallel.mesh.empty(),
          "schedule.recompute_ops",
          "has no effect (schedule.recompute is '{}'); set recompute = \"selective\", or remove the key",
          name_of(s.recompute));
    check(
        !s.peer_reads || deck_.precision.reduction == ReduceOrder::canonical || is_set("precision.reduction"),
        "schedule.peer_reads",
        "true has no effect (precision.reduction is '{}', the library's own); set reduction = "
        "\"canonical\", or remove the key",
        name_of(deck_.precision.reduction));
    check(s.recompute != Recompute::budget || s.memory_limit > 0 || deck_.run.memory_limit > 0,
          "schedule.recompute",
          "budget needs a limit to fit; set schedule.memory_limit or run.memory_limit, as \"60GiB\"");
  }

  /// Taken as they stand, ~ and $HOME would be names of new directories.
  void paths() {
    const auto as_it_stands = [this](std::string_view key, const std::string& path) {
      check(!path.starts_with('~'), key,
            "'{}' begins with a ~ (which only a shell replaces by a directory); write the whole path", path);
      check(path.find('$') == path.npos, key,
            "'{}' holds a $ (which only a shell replaces by a variable's value); write the whole path", path);
    };
    if (is_given("run.dir"))
      as_it_stands("run.dir", deck_.run.dir);
    else  // the directory is named after the run
      as_it_stands("run.name", deck_.run.name);
    as_it_stands("model.init", deck_.model.init);
    for (const auto& path : deck_.data.train) as_it_stands("data.train", path);
    for (const auto& path : deck_.data.valid) as_it_stands("data.valid", path);
    as_it_stands("schedule.profile", deck_.schedule.profile);
    as_it_stands("checkpoint.resume", deck_.checkpoint.resume);
  }

  void checkpoint() {
    const auto& c = deck_.checkpoint;
    check(
        c.every > 0 || c.keep_every == 0 || is_set("checkpoint.every"), "checkpoint.keep_every",
        "{} has no effect (checkpoint.every is 0, so nothing is saved on the way); set checkpoint.every, or "
        "remove the key",
        c.keep_every);
    const std::string& resume = c.resume;
    check(!resume.empty(), "checkpoint.resume", "empty (auto, never, or a checkpoint's path)");
    // What is longer than a slip of these words, or has a '/', is a path.
    constexpr std::array<std::string_view, 2> words{"auto", "never"};
    constexpr std::size_t longest = 5;
    if (resume == "auto" || resume == "never" || resume.size() > longest || resume.find('/') != resume.npos)
      return;
    const std::string_view meant = deck::nearest_word(resume, words);
    check(meant.empty(), "checkpoint.resume",
          "'{}' is neither auto nor never (a checkpoint of this name is ./{}){}", resume, resume,
          deck::did_you_mean(meant));
  }

  void rest() {
    check(deck_.precision.grad_wire == DType::f32 || deck_.precision.params == DType::bf16,
          "precision.grad_wire",
          "bf16 needs bf16 parameters (gradients of f32 products are f32); set precision.params = \"bf16\"");
    check(deck_.precision.norms == DType::f32 || deck_.precision.params == DType::bf16, "precision.norms",
          "bf16 needs bf16 parameters (no weight is narrower than what it is multiplied with); set "
          "precision.params = \"bf16\"");
    check(deck_.precision.float8.empty() || deck_.precision.params == DType::bf16, "precision.float8",
          "needs bf16 beside it (what is not in 8 bits is in bf16); set precision.params = \"bf16\"");
    check(!deck_.precision.float8.empty() || deck_.precision.float8_gradients == GradientFormat::e4m3,
          "precision.float8_gradients",
          "e5m2 has no effect (precision.float8 names no layer); give some, or remove the key");
    check(!deck_.precision.float8.empty() || deck_.precision.float8_scales == Float8Scales::rowwise,
          "precision.float8_scales",
          "tensorwise has no effect (precision.float8 names no layer); give some, or remove the key");
    check(deck_.log.trace_step <= deck_.run.steps, "log.trace_step",
          "{} is past the last step (run.steps = {})", deck_.log.trace_step, deck_.run.steps);
  }

 private:
  template <class... Args>
  void check(bool good, std::string_view key, fmt::format_string<Args...> format, Args&&... args) {
    if (!good) problems_.add(place_of(deck_, key), "", fmt::format(format, std::forward<Args>(args)...));
  }

  /// Whether the key's value is the command line's. A deck keeps what belongs to its own value of the key
  /// while a setting says something else for once.
  bool is_set(std::string_view key) const {
    return std::any_of(deck_.places.begin(), deck_.places.end(),
                       [key](const auto& given) { return given.key == key && given.place == "--set"; });
  }
  bool is_given(std::string_view key) const {
    return std::any_of(deck_.places.begin(), deck_.places.end(),
                       [key](const KeyPlace& given) { return given.key == key; });
  }

  /// Checks that fp32 has the number with all its digits.
  bool in_fp32(std::string_view key, double value) {
    constexpr double least = 1.2e-38, most = 3.4e38;
    const bool small = value != 0 && value < least;
    check(!small, key,
          "{} is too small (it is taken in fp32, where it loses digits or becomes 0); use at least {}", value,
          least);
    check(value <= most, key, "{} is too large (it is taken in fp32, where it is infinite); use at most {}",
          value, most);
    return !small && value <= most;
  }

  static std::string instead(std::int64_t value) {
    return value > 0 ? fmt::format("; did you mean {}?", value) : std::string{};
  }

  /// The divisor of `whole` nearest to `wish`; the smaller one of two.
  static std::int64_t nearest_divisor(std::int64_t whole, std::int64_t wish) {
    wish = std::min(wish, whole);
    for (std::int64_t d = 0; d < whole; ++d) {
      if (wish - d >= 1 && whole % (wish - d) == 0) return wish - d;
      if (wish + d <= whole && whole % (wish + d) == 0) return wish + d;
    }
    return 1;
  }

  const Deck& deck_;
  deck::Problems& problems_;
};

}  // namespace

void validate(const Deck& deck) {
  deck::Problems problems;
  Deck copy = deck;  // a slot points into a mutable deck
  for (const auto& key : deck::keys())
    if (const auto problem = deck::range_problem(key, copy); !problem.empty())
      problems.add(place_of(deck, key.path), "", problem);
  problems.throw_if_any();  // the checks below divide by these numbers
  Validator validator(deck, problems);
  validator.run();
  validator.model();
  validator.data();
  validator.optimizer();
  validator.numbers();
  validator.parallel();
  validator.pipeline();
  validator.patterns();
  validator.schedule();
  validator.paths();
  validator.checkpoint();
  validator.rest();
  problems.throw_if_any();  // the limits are of heads that divide
  deck::check_limits(deck, problems);
  problems.throw_if_any();
}

}  // namespace weft
