// Tests index.h5, which is for others' tools. So it is read here with HDF5's C API, h5dump and h5py, none of
// which knows Weft.
#include <gtest/gtest.h>
#include <hdf5.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>

#include "sample_state.hpp"
#include "support/missing.hpp"

namespace weft::ckpt::test {
namespace {

std::string index_path_of(const Parameter& p, Role role) {
  if (role == Role::master) return "/model/" + p.path;
  return "/optimizer/" + std::string(name_of(role)) + "/" + p.path;
}

struct Read {
  std::vector<float> values;
  Shape shape;
};

Read read_dataset(const std::string& file, const std::string& path) {
  Read read;
  const hid_t f = H5Fopen(file.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  const hid_t d = H5Dopen2(f, path.c_str(), H5P_DEFAULT);
  const hid_t s = H5Dget_space(d);
  std::vector<hsize_t> dims(static_cast<std::size_t>(std::max(0, H5Sget_simple_extent_ndims(s))));
  H5Sget_simple_extent_dims(s, dims.data(), nullptr);
  read.shape = Shape(dims.begin(), dims.end());
  read.values.resize(static_cast<std::size_t>(H5Sget_simple_extent_npoints(s)));
  EXPECT_GE(H5Dread(d, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, read.values.data()), 0) << path;
  H5Sclose(s);
  H5Dclose(d);
  H5Fclose(f);
  return read;
}

void expect_index_shows(const std::string& checkpoint, int salt, bool narrow = false) {
  for (const Unit& unit : sample_units()) {
    for (const Parameter& p : unit.parameters) {
      for (const Role role : all_roles) {
        auto expected = stored_parameter(role, p, salt);
        if (narrow) {
          for (float& x : expected) x = to_float(to_bf16(x));
        }
        const Read read = read_dataset(checkpoint + "/" + index_name, index_path_of(p, role));
        EXPECT_EQ(read.shape, p.shape);
        EXPECT_EQ(read.values, expected) << index_path_of(p, role);
      }
    }
  }
}

struct Output {
  int status;
  std::string text;
};

Output run_command(const std::string& command) {
  Output output{-1, {}};
  FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return output;
  std::array<char, 4096> buffer;
  for (std::size_t n; (n = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
    output.text.append(buffer.data(), n);
  output.status = ::pclose(pipe);
  return output;
}

TEST(CheckpointIndex, ShowsEveryParameterWhole) {
  for (const int ranks : {1, 2, 3, 6}) {
    TemporaryDirectory dir;
    const auto report = save_with(ranks, dir.path(), 1, 7).front();
    ASSERT_TRUE(report.ok) << report.reason;
    expect_index_shows(report.path, 7);
  }
}

TEST(CheckpointIndex, ShowsBf16) {
  TemporaryDirectory dir;
  const auto report = save_with(2, dir.path(), 1, 7, {}, {}, DType::bf16).front();
  ASSERT_TRUE(report.ok) << report.reason;
  expect_index_shows(report.path, 7, true);
}

TEST(CheckpointIndex, ReadsAfterTheDirectoryWasMoved) {
  TemporaryDirectory dir;
  ASSERT_TRUE(save_with(3, dir.path() + "/a", 1, 8).front().ok);
  fs::create_directories(dir.path() + "/b/c");
  fs::rename(dir.path() + "/a/step-00000001", dir.path() + "/b/c/elsewhere");
  expect_index_shows(dir.path() + "/b/c/elsewhere", 8);
}

TEST(CheckpointIndex, H5dumpReadsIt) {
  if (run_command("h5dump --version").status != 0) WEFT_MISSING_TOOL() << "h5dump is not installed";
  TemporaryDirectory dir;
  ASSERT_TRUE(save_with(3, dir.path(), 12, 9).front().ok);
  const std::string index = dir.path() + "/latest/" + index_name;
  const auto step = run_command("cd / && h5dump -a /step " + index);
  EXPECT_NE(step.text.find("(0): 12"), std::string::npos) << step.text;
  const auto deck = run_command("h5dump -a /deck " + index);
  EXPECT_NE(deck.text.find("dim = 33"), std::string::npos) << deck.text;
  // This is the binary form of a dataset that spans three shards, read from another directory.
  const std::string raw = dir.path() + "/w1.bin";
  const auto dump =
      run_command("cd / && h5dump -d /optimizer/exp_avg/layers.0.ffn.w1 -b LE -o " + raw + " " + index);
  ASSERT_EQ(dump.status, 0) << dump.text;
  const Parameter p = sample_units()[2].parameters[0];
  std::vector<float> values(static_cast<std::size_t>(element_count(p.shape)));
  std::ifstream(raw, std::ios::binary)
      .read(reinterpret_cast<char*>(values.data()), static_cast<std::streamsize>(values.size() * 4));
  EXPECT_EQ(values, stored_parameter(Role::exp_avg, p, 9));
}

/// The first Python that has h5py. Debian's package is for Debian's Python, which need not be the first of
/// PATH.
std::optional<std::string> python_with_h5py() {
  const char* chosen = std::getenv("WEFT_PYTHON");
  for (const std::string& python :
       {std::string(chosen != nullptr ? chosen : "python3"), std::string("/usr/bin/python3")})
    if (run_command(python + " -c 'import h5py'").status == 0) return python;
  return std::nullopt;
}

TEST(CheckpointIndex, H5pyReadsIt) {
  const auto python = python_with_h5py();
  if (!python)
    WEFT_MISSING_TOOL() << "no Python has h5py (Debian: python3-h5py); WEFT_PYTHON names another one";
  TemporaryDirectory dir;
  ASSERT_TRUE(save_with(3, dir.path(), 12, 9).front().ok);
  for (const Role role : all_roles) {
    for (const Unit& unit : sample_units()) {
      for (const Parameter& p : unit.parameters) {
        const auto values = stored_parameter(role, p, 9);
        std::ofstream(dir.path() + "/" + std::string(name_of(role)) + "." + p.path, std::ios::binary)
            .write(reinterpret_cast<const char*>(values.data()),
                   static_cast<std::streamsize>(values.size() * 4));
      }
    }
  }
  const std::string script = std::string(WEFT_SOURCE_DIR) + "/tests/unit/ckpt/read_index.py";
  const auto output =
      run_command("cd / && " + *python + " " + script + " " + dir.path() + "/latest/index.h5 " + dir.path());
  EXPECT_EQ(output.status, 0) << output.text;
  EXPECT_NE(output.text.find("27 datasets are equal, step 12"), std::string::npos) << output.text;
}

}  // namespace
}  // namespace weft::ckpt::test
