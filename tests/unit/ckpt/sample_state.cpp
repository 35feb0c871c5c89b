#include "sample_state.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <barrier>
#include <cstring>
#include <thread>

#include "base/check.hpp"
#include "base/hash.hpp"
#include "base/rng.hpp"

namespace weft::ckpt::test {

TemporaryDirectory::TemporaryDirectory() {
  std::string pattern = (fs::temp_directory_path() / "weft-ckpt-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp");
  path_ = pattern;
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::set<std::string> names_in(const std::string& dir) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(dir)) names.insert(entry.path().filename().string());
  return names;
}

namespace {

Unit make_unit(std::string path, std::vector<Parameter> parameters) {
  Unit unit{std::move(path), std::move(parameters), 0};
  for (Parameter& p : unit.parameters) {
    p.offset = unit.elements;
    unit.elements += element_count(p.shape);
  }
  return unit;
}

}  // namespace

std::vector<Unit> sample_units() {
  return {
      make_unit("embed", {{"embed.weight", {50, 33}, 0}}),
      make_unit("layers.0.attn", {{"layers.0.attn.norm", {33}, 0},
                                  {"layers.0.attn.wq", {33, 33}, 0},
                                  {"layers.0.attn.wk", {11, 33}, 0},
                                  {"layers.0.attn.wv", {11, 33}, 0}}),
      make_unit("layers.0.ffn", {{"layers.0.ffn.w1", {71, 33}, 0}, {"layers.0.ffn.w2", {71, 33}, 0, true}}),
      make_unit("experts", {{"experts.w", {7, 13, 5}, 0}}), make_unit("tiny", {{"tiny.scale", {33}, 0}})};
}

std::vector<Unit> regrouped_units() {
  const auto units = sample_units();
  // tiny.scale ends where wq begins, each in its own unit: the two must not be read as one run of elements.
  std::vector<Parameter> first = {units[4].parameters[0], units[1].parameters[1], units[2].parameters[0],
                                  units[2].parameters[1]};
  std::vector<Parameter> second = {units[1].parameters[3], units[0].parameters[0], units[1].parameters[0],
                                   units[1].parameters[2], units[3].parameters[0]};
  return {make_unit("all.first", first), make_unit("all.second", second)};
}

RunState sample_run(std::int64_t step) {
  RunState run;
  run.step = step;
  run.tokens = step * 4096;
  run.sample = step * 8;
  run.seed = 0xfedcba9876543210ull;
  run.deck = "[model]\ndim = 33  # \"quoted\", ünïcode\n";
  run.model_key = "model.dim = 33\nmodel.layers = 1\n";
  run.weft_version = "0.1.0";
  run.git_hash = "abc123";
  run.mode = "fsdp";
  return run;
}

std::string with_checksum(std::string text) {
  const std::size_t at = text.find(':') + 2;
  text.replace(at, 16, 16, '0');
  return text.replace(at, 16, fmt::format("{:016x}", hash_text(text)));
}

float value_of(Role role, const std::string& parameter, std::int64_t element, int salt) {
  const RandomStream stream(static_cast<std::uint64_t>(salt) * 8 + static_cast<std::uint64_t>(role),
                            parameter);
  return static_cast<float>(stream.uniform(static_cast<std::uint64_t>(element))) - 0.5F;
}

std::vector<float> whole_parameter(Role role, const Parameter& parameter, int salt) {
  std::vector<float> values(static_cast<std::size_t>(element_count(parameter.shape)));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = value_of(role, parameter.path, static_cast<std::int64_t>(i), salt);
  return values;
}

std::vector<float> stored_parameter(Role role, const Parameter& parameter, int salt) {
  std::vector<float> values(static_cast<std::size_t>(element_count(parameter.shape)));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = value_of(role, parameter.path, out_in_index(parameter, static_cast<std::int64_t>(i)), salt);
  return values;
}

RankState empty_state(const std::vector<Unit>& units, int rank, int ranks, DType dtype) {
  RankState state;
  for (const Unit& unit : units) {
    const std::int64_t shard = unit.shard_elements(ranks);
    const std::int64_t begin = std::min(unit.elements, shard * rank);
    const std::int64_t count = std::min(unit.elements, shard * (rank + 1)) - begin;
    for (Role role : all_roles) {
      auto& bytes =
          state.memory.emplace_back(static_cast<std::size_t>(count) * size_of(dtype), std::byte{0xAA});
      state.slices.push_back({unit.path, role, dtype, unit.elements, begin, count, bytes.data()});
    }
  }
  return state;
}

RankState filled_state(const std::vector<Unit>& units, int rank, int ranks, int salt, DType dtype) {
  RankState state = empty_state(units, rank, ranks, dtype);
  for (StateSlice& s : state.slices) {
    const auto unit =
        std::find_if(units.begin(), units.end(), [&](const Unit& u) { return u.path == s.unit; });
    for (const Parameter& p : unit->parameters) {
      const std::int64_t end = std::min(s.begin + s.count, p.offset + element_count(p.shape));
      for (std::int64_t i = std::max(s.begin, p.offset); i < end; ++i) {
        const float value = value_of(s.role, p.path, out_in_index(p, i - p.offset), salt);
        std::byte* to = s.data + (i - s.begin) * static_cast<std::int64_t>(size_of(dtype));
        const bf16 narrow = to_bf16(value);
        if (dtype == DType::f32) std::memcpy(to, &value, sizeof value);
        if (dtype == DType::bf16) std::memcpy(to, &narrow, sizeof narrow);
      }
    }
  }
  return state;
}

bool same_bytes(const RankState& a, const RankState& b) {
  return a.memory == b.memory;
}

void with_ranks(int ranks, const std::function<void(const Hooks&)>& run_rank) {
  std::vector<std::string> texts(static_cast<std::size_t>(ranks));
  std::vector<char> answers(static_cast<std::size_t>(ranks));
  std::barrier meet(ranks);
  const auto hooks_of = [&](int rank) {
    const auto self = static_cast<std::size_t>(rank);
    Hooks hooks;
    hooks.rank = rank;
    hooks.size = ranks;
    hooks.barrier = [&] { meet.arrive_and_wait(); };
    hooks.broadcast = [&, self](std::string text) {
      if (self == 0) texts[0] = std::move(text);
      meet.arrive_and_wait();
      std::string mine = texts[0];
      meet.arrive_and_wait();
      return mine;
    };
    hooks.gather = [&, self](const std::string& text) {
      texts[self] = text;
      meet.arrive_and_wait();
      auto all = self == 0 ? texts : std::vector<std::string>();
      meet.arrive_and_wait();
      return all;
    };
    hooks.all_true = [&, self](bool ok) {
      answers[self] = ok;
      meet.arrive_and_wait();
      const bool all = std::find(answers.begin(), answers.end(), 0) == answers.end();
      meet.arrive_and_wait();
      return all;
    };
    return hooks;
  };
  std::vector<std::thread> threads;
  for (int rank = 1; rank < ranks; ++rank) threads.emplace_back([&, rank] { run_rank(hooks_of(rank)); });
  run_rank(hooks_of(0));
  for (auto& thread : threads) thread.join();
}

std::vector<SaveReport> save_with(int ranks, const std::string& dir, std::int64_t step, int salt,
                                  SaveOptions options,
                                  const std::function<void(int, SaveOptions&)>& option_of, DType dtype) {
  const auto units = sample_units();
  std::vector<SaveReport> reports(static_cast<std::size_t>(ranks));
  with_ranks(ranks, [&](const Hooks& hooks) {
    const RankState state = filled_state(units, hooks.rank, ranks, salt, dtype);
    RunState run = sample_run(step);
    run.world = ranks;
    SaveOptions own = options;
    if (option_of) option_of(hooks.rank, own);
    reports[static_cast<std::size_t>(hooks.rank)] = save(dir, run, units, state.slices, hooks, own);
  });
  return reports;
}

bool loads_as(const std::string& checkpoint, int ranks, int salt, const std::vector<Unit>& units,
              DType dtype) {
  for (int rank = 0; rank < ranks; ++rank) {
    RankState state = empty_state(units, rank, ranks, dtype);
    load(checkpoint, units, state.slices);
    if (!same_bytes(state, filled_state(units, rank, ranks, salt, dtype))) return false;
  }
  return true;
}

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::bad_checkpoint);
    EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos) << e.what();
    return e.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}

}  // namespace weft::ckpt::test
