// Reads the weights of a Llama in a Hugging Face directory: config.json beside safetensors files.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/unit.hpp"
#include "ckpt/state.hpp"
#include "hf/config.hpp"
#include "hf/element.hpp"
#include "hf/safetensors.hpp"
#include "io/file.hpp"

namespace weft::hf {

/// Whether a directory holds a model in this format, or has at least a part of one.
bool is_model(const std::string& dir);

/// The weights of one directory. It uses host memory only, and reads block. Errors are Error(bad_checkpoint),
/// with one line that names file and tensor.
class Weights {
 public:
  /// Opens a directory: reads config.json and every file's header.
  explicit Weights(const std::string& dir);

  const std::string& dir() const { return dir_; }
  const Config& config() const { return config_; }

  /// Throws unless the tensors are exactly those of a model of these units, and each has its shape and is
  /// f32, bf16 or f16.
  void check(const std::vector<Unit>& units) const;

  /// A number that differs between directories of different weights: a hash of each tensor's name, shape,
  /// type and first 4 KiB.
  std::uint64_t fingerprint() const;

  /// Reads elements [begin, begin + count) of a parameter, in Weft's order, as fp32. Needs 1 MiB of
  /// memory, and a row of the file.
  void read(const Parameter& parameter, std::int64_t begin, std::int64_t count, float* out) const;

  /// Fills fp32 slices of masters: the counterpart of ckpt::load.
  void load(const std::vector<Unit>& units, std::span<const ckpt::StateSlice> slices) const;

 private:
  struct Place {
    Tensor tensor;
    const io::File* file;
    std::string file_name;
    std::int64_t data_begin;
  };
  void open(const std::string& name);
  const Place& place(const std::string& tensor) const;
  static void read_run(const Place& at, std::int64_t from, std::int64_t count, float* out);
  static void read_turned(const Parameter& parameter, const Place& at, std::int64_t begin, std::int64_t count,
                          float* out);
  void check_known(const std::vector<Unit>& units) const;

  std::string dir_;
  Config config_;
  std::vector<std::unique_ptr<io::File>> files_;
  std::map<std::string, Place> places_;
};

}  // namespace weft::hf
