// Divides documents between a training file and a validation file, and writes both.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/rng.hpp"
#include "data/same_files.hpp"
#include "data/token_file_writer.hpp"

namespace weft::data {

class Tokenizer;

struct SplitOptions {
  std::string train;             ///< token file to write
  std::string valid;             ///< token file to write; empty: all documents are for training
  double valid_fraction = 0.01;  ///< share of the documents, drawn by a hash of seed and document number
  std::uint64_t seed = 1;
  bool force = false;  ///< replaces what is no token file, too
};

/// What is in one of the files.
struct SplitReport {
  std::string path;
  std::int64_t documents = 0;
  std::int64_t tokens = 0;  ///< number of tokens, those that end documents included
  std::int64_t text_bytes = 0;
};

/// The lines of a report, "training  PATH: ..." and, if there is one, that of the validation file.
std::string to_text(const SplitReport& train, const SplitReport& valid);

/// Decides which documents are held out for validation.
class Split {
 public:
  explicit Split(const SplitOptions& options);
  /// Whether the document of that number, counted from 0 over all inputs, is for validation.
  bool is_valid(std::int64_t document) const;

 private:
  RandomStream random_;
  double fraction_;
};

/// Throws Error(bad_input) unless the options can be followed: a training file is named, the fraction lies
/// between 0 and 1, every name that is written (those of `also_written` included) leads to a file of its own
/// that is none of `read`, and no file that is no token file would be replaced without `force`.
void check_split(const SplitOptions& options, std::vector<NamedFile> also_written,
                 const std::vector<NamedFile>& read);

/// The two files while they are written. They have their names only when publish() has returned.
class SplitWriter {
 public:
  /// Creates the temporary files. The options have passed check_split(), and outlive the object.
  SplitWriter(const SplitOptions& options, const Tokenizer& tokenizer);
  /// The file that the document of that number belongs to.
  TokenFileWriter& file_of(std::int64_t document);
  /// Throws Error(bad_input) when there is a validation file, and one of the two has no document; `why`
  /// stands behind the fraction, and `remedy` says how there would be more.
  void check_documents(const std::string& why, const std::string& remedy) const;
  /// Has all of both files on storage, still under their temporary names.
  void complete();
  /// Gives the complete files their names.
  void publish();

  SplitReport train() const;
  SplitReport valid() const;  ///< its path is empty when there is no such file

 private:
  const SplitOptions& options_;
  Split split_;
  TokenFileWriter train_;
  std::optional<TokenFileWriter> valid_;
};

}  // namespace weft::data
