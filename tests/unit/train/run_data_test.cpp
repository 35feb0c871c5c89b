// Tests what a run's token files must have in common.
#include "train/run_data.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "support/small_deck.hpp"
#include "support/temporary_directory.hpp"
#include "unit/data/text_files.hpp"

namespace weft::train {
namespace {

/// The loss would be of other texts, and bits per byte would mean nothing.
TEST(RunData, ValidationFilesHaveTheTokenizerOfTheTrainingFiles) {
  const test::TemporaryDirectory dir;
  const std::vector<std::int32_t> ids(200, 65);
  test::write_byte_tokens(dir / "bytes.bin", ids);
  test::write_byte_tokens(dir / "more-bytes.bin", ids);
  data::TokenFileWriter writer(dir / "wide.bin", test::WideTokenizer(257));
  writer.append(ids);
  writer.finish();
  const auto open = [&](const std::string& train, const std::string& valid) {
    RunData data(nullptr);
    data.open(test::small_deck({"data.synthetic=false", "data.train=" + (dir / train),
                                "data.valid=" + (dir / valid), "data.valid_sequences=1"}));
    EXPECT_NE(data.validation(), nullptr);
  };
  EXPECT_NO_THROW(open("bytes.bin", "more-bytes.bin"));
  EXPECT_NO_THROW(open("wide.bin", "wide.bin"));
  for (const auto& [train, valid] : {std::pair("bytes.bin", "wide.bin"), {"wide.bin", "bytes.bin"}})
    test::expect_error([&, train = train, valid = valid] { open(train, valid); },
                       {valid + std::string(" was made by another tokenizer than "), train});
}

}  // namespace
}  // namespace weft::train
