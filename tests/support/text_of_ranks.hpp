// A file of documents of text for a test of several ranks.
#pragma once

#include <fmt/core.h>

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "data/token_file_writer.hpp"
#include "data/tokenizer.hpp"
#include "support/mpi_environment.hpp"
#include "support/temporary_directory.hpp"

namespace weft::test {

/// Collective: rank 0 writes the file, and removes it at the end of this object, when all ranks have come
/// there.
class TextOfRanks {
 public:
  TextOfRanks() {
    if (world().rank() == 0) {
      directory_.emplace();
      const auto tokenizer = data::open_tokenizer("byte");
      data::TokenFileWriter writer(*directory_ / "text.bin", *tokenizer);
      for (int document = 0; document < 60; ++document) {
        writer.append(tokenizer->encode(fmt::format("document {} of {}", document * document, document % 7)));
        writer.append(std::array{tokenizer->end_of_document()});
        writer.end_document();
      }
      writer.finish();
    }
    path_ = world().broadcast(directory_ ? *directory_ / "text.bin" : std::string(), 0);
  }
  TextOfRanks(const TextOfRanks&) = delete;
  TextOfRanks& operator=(const TextOfRanks&) = delete;
  ~TextOfRanks() { world().barrier(); }

  /// Keys of a deck that trains on the file and validates fifteen sequences of it, which are no whole number
  /// of rounds, with attention within documents.
  std::vector<std::string> sets() const {
    return {"data.synthetic=false", "data.train=" + path_, "data.valid=" + path_, "data.valid_sequences=15",
            "data.document_mask=true"};
  }

 private:
  std::optional<TemporaryDirectory> directory_;
  std::string path_;
};

}  // namespace weft::test
