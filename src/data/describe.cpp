#include "data/describe.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "data/token_file.hpp"
#include "data/tokenizer.hpp"

namespace weft::data {
namespace {

double ratio(std::int64_t a, std::int64_t b) {
  return b > 0 ? static_cast<double>(a) / static_cast<double>(b) : 0.0;
}

std::string first_tokens(const TokenFile& file, const DescribeOptions& options) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(std::min(options.first, file.tokens())));
  file.read(0, static_cast<std::int64_t>(ids.size()), ids.data());
  std::string text = "first tokens     ";
  for (const std::int32_t id : ids) text += fmt::format(" {}", id);
  text += '\n';
  if (!options.tokenizer) return text;
  check_tokenizer(file, *options.tokenizer);
  return text + "first text\n" + options.tokenizer->decode(ids) + '\n';
}

}  // namespace

std::string describe(const std::string& path, const DescribeOptions& options) {
  const TokenFile file = TokenFile::open(path);
  file.verify();
  std::int64_t longest = 0;
  for (std::int64_t i = 0; i < file.documents(); ++i)
    longest = std::max(longest, file.document_start(i + 1) - file.document_start(i));
  std::string text;
  text += fmt::format("file              {} (whole: its checksum holds)\n", path);
  text += fmt::format("tokens            {} of {} bits\n", file.tokens(), 8 * file.token_size());
  text += fmt::format("vocabulary        {} ({}, {:016x}); end of document is {}\n", file.vocab(),
                      name_of(file.tokenizer()), file.tokenizer_hash(), file.end_of_document());
  text += fmt::format("documents         {}; {:.1f} tokens on average, {} the longest\n", file.documents(),
                      ratio(file.tokens(), file.documents()), longest);
  text += fmt::format("text              {} bytes; {:.3f} bytes/token\n", file.text_bytes(),
                      ratio(file.text_bytes(), file.tokens()));
  return text + first_tokens(file, options);
}

}  // namespace weft::data
