// Tests profiles as text: what is written reads back, and a mistake is named with its line.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "unit/machine/small_profile.hpp"

namespace weft::test {
namespace {

using machine::parse_profile;
using machine::print_profile;
using machine::Profile;

TEST(ProfileText, ReadsBack) {
  Profile with_replicas = small_profile();
  with_replicas.sharing.replica = machine::ReplicaSharing{0.75, 0.5, 3e-10};
  Profile with_algorithms = small_profile();
  with_algorithms.algorithms = {{"dgrad, 48 rows, 64 in, 32 out, bf16 to bf16", "cuBLASLt 130200 2f 0"},
                                {"forward, 48 rows, 64 in, 32 out, bf16 to bf16", "cuBLASLt 130200 31 1"}};
  Profile with_float8 = with_algorithms;
  for (const char* product : {"forward, 48 rows, 64 in, 32 out, e4m3 by e4m3 to bf16, tensorwise",
                              "dgrad, 48 rows, 64 in, 32 out, e5m2 by e4m3 to bf16, rowwise, added"})
    with_float8.algorithms.emplace(product, "cuBLASLt 130200 1d 2");
  EXPECT_EQ(with_float8.algorithms.size(), 4U);
  std::vector<Profile> profiles{small_profile(), with_replicas, with_algorithms, with_float8,
                                machine::default_profile(machine::DefaultProfile::host)};
  for (const std::string& name : machine::shipped_machine_names())
    profiles.push_back(machine::shipped_machine(name).value());
  for (const Profile& p : profiles) {
    const Profile again = parse_profile(print_profile(p), "m.toml");
    EXPECT_EQ(p, again) << print_profile(p);
    EXPECT_EQ(print_profile(p), print_profile(again));
    EXPECT_EQ(hash_of(p), hash_of(again));
  }
}

// 500 W instead of 700: what computes is slower by the root of that, and nothing else is.
TEST(ShippedMachines, ABoardOfLessPowerComputesSlower) {
  const Profile full = machine::shipped_machine("h100").value(),
                less = machine::shipped_machine("h100-96").value();
  for (double machine::Compute::*rate : {&machine::Compute::matmul_f32, &machine::Compute::matmul_bf16,
                                         &machine::Compute::matmul_f8, &machine::Compute::attention}) {
    const double ratio = less.compute.*rate / (full.compute.*rate);
    EXPECT_NEAR(ratio * ratio, 5.0 / 7.0, 1e-12);
  }
  EXPECT_EQ(less.compute.peak_bf16, full.compute.peak_bf16);  // MFU is a share of the data sheet
  EXPECT_EQ(less.sharing, full.sharing);
}

TEST(ProfileText, KeepsOddNumbersAndNames) {
  Profile p = small_profile();
  p.name = "a \"quoted\" name\\ with a line\nbreak";
  p.compute.launch_s = 0.1 + 0.2;
  p.compute.memory_bytes = 12e9;
  p.sharing.stolen_s_per_byte = 1.0 / 3e12;
  p.collectives[0].points[0].seconds = 4.9406564584124654e-324;
  EXPECT_EQ(parse_profile(print_profile(p), "m.toml"), p) << print_profile(p);
}

TEST(ProfileText, HashSeesEveryNumber) {
  const std::uint64_t before = hash_of(small_profile());
  Profile p = small_profile();
  p.kernels[1].seconds *= 1.0 + 1e-15;
  EXPECT_NE(hash_of(p), before);
  p = small_profile();
  p.sharing.both_lanes = 0.6;
  EXPECT_NE(hash_of(p), before);
  p = small_profile();
  p.sharing.replica = machine::ReplicaSharing{};
  const std::uint64_t with_replicas = hash_of(p);
  EXPECT_NE(with_replicas, before);
  for (double* x : {&p.sharing.replica->beside_lanes, &p.sharing.replica->beside_compute,
                    &p.sharing.replica->stolen_s_per_byte}) {
    const double was = std::exchange(*x, 0.25);
    EXPECT_NE(hash_of(p), with_replicas);
    *x = was;
  }
}

TEST(ProfileText, AProfileOfOneRankHasNoCollectives) {
  Profile p = small_profile();
  p.collectives.clear();
  p.kernels.clear();
  EXPECT_EQ(parse_profile(print_profile(p), "m.toml"), p);
}

/// A mistake: the small profile's text with one line in the place of another, and the message about it.
struct Slip {
  std::string from, to, message;
};

TEST(ProfileText, MistakesAreNamedWithTheirLine) {
  const std::string good = print_profile(small_profile());
  const std::vector<Slip> slips{
      {"[sharing]\n", "[sharing]\nspeed = 1\n", "unknown key 'speed' (keys of [sharing]: link_bytes_per_s"},
      {"ranks_per_node = 4", "ranks_per_nod = 4", "a machine profile has no key 'ranks_per_node'"},
      {"ranks_per_node = 4", "ranks_per_node = 0", "'ranks_per_node' is 0 (it is at least 1)"},
      {"ranks_per_node = 4", "ranks_per_node = 4.5", "'ranks_per_node' is not a whole number"},
      {"name = \"small\"", "name = 3", "'name' is not text"},
      {"launch_s           = 1e-06", "launch_s = -1e-06", "'launch_s' is -1e-06 (it is at least 0)"},
      {"launch_s           = 1e-06", "launch_s = nan", "'launch_s' is nan"},
      {"launch_s           = 1e-06", "launch_s = \"2us\"", "'launch_s' is not a number"},
      {"launch_s           = 1e-06", "launch_s = 1 us", "not valid TOML"},
      {"matmul_f32         = 1000000000", "matmul_f32 = 0", "'matmul_f32' is 0 (it is at least 1000)"},
      {"both_lanes         = 0.5", "both_lanes = 1.5", "'both_lanes' is 1.5 (at most 1"},
      {"\n[kernels]", "\n[sharing.replica]\nbeside_lanes = 2\n[kernels]", "'beside_lanes' is 2 (at most 1"},
      {"\n[kernels]", "\n[sharing.replica]\nbeside_lanes = 1\n[kernels]",
       "[sharing.replica] has no key 'beside_compute'"},
      {"op = \"reduce_scatter\"", "op = \"broadcast\"", "'broadcast' is no collective (all_gather"},
      {"wire = \"bf16\"", "wire = \"f64\"", "'f64' does not travel (f32, bf16)"},
      {"[4096, 2e-05]", "[512, 2e-05]", "a point of 512 bytes (bytes are above 0 and ascend)"},
      {"[4096, 2e-05]", "[4096]", "a point is not [bytes, seconds] (a list of 2 numbers)"},
      {"[4096, 2e-05]", "[4096, 0]", "a point of 0 seconds"},
      {"= [1e-06, 0, 32]", "= [1e-06, 0]", "a kernel is not [seconds, FLOP, bytes]"},
      {"= [1e-06, 0, 32]", "= [1e-06, 0, -32]", "is -32 (it is at least 0)"},
      {"= [1e-06, 0, 32]", "= [1e-06, 0, 32]\n[algorithms]\n\"wgrad\" = 3",
       "an algorithm is not a text (as weft profile wrote it)"},
  };
  for (const Slip& slip : slips) {
    std::string text = good;
    const std::size_t at = text.find(slip.from);
    ASSERT_NE(at, std::string::npos) << slip.from << " is not in\n" << good;
    text.replace(at, slip.from.size(), slip.to);
    try {
      parse_profile(text, "m.toml");
      ADD_FAILURE() << "accepted: " << slip.to;
    } catch (const Error& e) {
      const std::string what = e.what();
      EXPECT_EQ(e.code(), ExitCode::bad_input);
      EXPECT_TRUE(what.starts_with("m.toml:")) << what;
      EXPECT_EQ(what.find('\n'), std::string::npos) << what;
      EXPECT_NE(what.find(slip.message), std::string::npos) << what << "\nfor " << slip.to;
    }
  }
}

TEST(ProfileText, TheLineIsTheMistakes) {
  try {
    parse_profile("name = \"x\"\nranks_per_node = 1\n\n[compute]\nthreads = 1\nmatmul_f32 = -1\n", "m.toml");
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "m.toml:6: 'matmul_f32' is -1 (it is at least 1000)");
  }
}

}  // namespace
}  // namespace weft::test
