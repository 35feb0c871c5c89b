// Makes a small model as a checkpoint and as a Hugging Face directory, and has helpers of the tests.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/check.hpp"
#include "ckpt/state.hpp"
#include "deck/deck.hpp"
#include "hf/export.hpp"
#include "model/spec.hpp"
#include "support/temporary_directory.hpp"

namespace weft::hf::test {

/// A small model with grouped-query attention; none of its sizes is a power of two.
Deck small_model(const std::vector<std::string>& sets = {});
model::Spec spec_of(const Deck& deck);
ckpt::RunState run_of(const Deck& deck);

/// Saves moments, and masters that differ in each element and type. Returns the checkpoint's directory.
std::string save_model(const Deck& deck, const std::string& checkpoints_dir, std::int64_t slab_bytes = 1000);

/// The masters of every parameter.
std::map<std::string, std::vector<float>> masters(const Deck& deck, const std::string& checkpoint);
/// Does what `weft checkpoint import` does. Returns the checkpoint's directory.
std::string import_model(const std::string& model_dir, const std::string& checkpoints_dir);
/// The contents of all files in a directory, by name.
std::map<std::string, std::string> files_in(const std::string& dir);

/// The message that `f` throws as an Error of this code. The test fails when `f` does not throw one, or when
/// its message is not one line.
std::string error_of(const std::function<void()>& f, ExitCode code = ExitCode::bad_checkpoint);

}  // namespace weft::hf::test
