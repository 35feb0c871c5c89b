#include "data/foreign_tokens.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "base/check.hpp"
#include "data/token_format.hpp"
#include "io/named_path.hpp"

namespace weft::data {
namespace {

constexpr std::int64_t piece_tokens = 1 << 20;

template <class T>
void widen(std::span<const std::byte> bytes, std::vector<std::int64_t>& ids) {
  ids.resize(bytes.size() / sizeof(T));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    ids[i] = static_cast<std::int64_t>(value);
  }
}

/// Reads an array of a file front to back, in blocks.
template <class T>
class Column {
 public:
  Column(const FileReader& file, std::int64_t offset, std::int64_t count)
      : file_(file), offset_(offset), left_(count) {}

  /// The next element; nothing behind the last one.
  std::optional<T> next() {
    if (at_ == block_.size()) {
      block_.resize(static_cast<std::size_t>(std::min<std::int64_t>(left_, 1 << 15)));
      if (block_.empty()) return std::nullopt;
      file_.read(block_.data(), block_.size() * sizeof(T), offset_);
      offset_ += static_cast<std::int64_t>(block_.size() * sizeof(T));
      left_ -= std::ssize(block_);
      at_ = 0;
    }
    return block_[at_++];
  }

 private:
  const FileReader& file_;
  std::int64_t offset_, left_;
  std::vector<T> block_;
  std::size_t at_ = 0;
};

/// Tokens without an index; the end-of-document tokens among them are all that tells documents.
class Stream : public ForeignTokens {
 public:
  Stream(std::string path, std::string_view format, TokenType type, std::unique_ptr<FileReader> file,
         std::int64_t first_byte)
      : ForeignTokens(std::move(path), format) {
    type_ = type;
    file_ = std::move(file);
    first_byte_ = first_byte;
    const std::int64_t bytes = file_->size() - first_byte;
    const auto size = static_cast<std::int64_t>(size_of(type));
    WEFT_VALIDATE(bytes % size == 0, "{} has {} bytes of tokens (not a multiple of {}); copy it again", path_,
                  bytes, size);
    tokens_ = bytes / size;
  }

 private:
  std::int64_t next_document() override { return -1; }
};

/// llm.c's header: 256 integers of 32 bits, of which the first three are these.
struct LlmcHeader {
  std::int32_t magic, version, tokens;
};
constexpr std::int64_t llmc_header_bytes = 1024;

LlmcHeader llmc_header(std::string_view beginning) {
  LlmcHeader header{};
  std::memcpy(&header, beginning.data(), std::min(beginning.size(), sizeof header));
  return header;
}

/// The element type that a header of llm.c names; nothing where it is no such header.
std::optional<TokenType> llmc_type(const LlmcHeader& header) {
  if (header.magic == 20240520) return TokenType::u16;  // GPT-2
  if (header.magic == 20240801) return TokenType::u32;  // Llama 3
  return std::nullopt;
}

/// What a file is that is known by its beginning; empty where that tells nothing.
std::string_view known_by(std::string_view beginning) {
  if (llmc_type(llmc_header(beginning))) return "a file of llm.c";
  if (beginning.starts_with(std::string_view(token_magic.data(), token_magic.size())))
    return "a token file of Weft already";
  if (beginning.starts_with("MMIDIDX")) return "an index of Megatron-LM";
  if (beginning.starts_with("\x93NUMPY")) return "a file of numpy.save()";
  return {};
}

std::unique_ptr<ForeignTokens> open_llmc(const std::string& path, const std::string& no_index) {
  auto file = std::make_unique<FileReader>("file of tokens", path, io::Named::by_user);
  const std::int64_t size = file->size();
  const std::string beginning = file->beginning(16);
  const LlmcHeader header = llmc_header(beginning);
  const auto type = llmc_type(header);
  const std::string_view known = known_by(beginning);
  WEFT_VALIDATE(type || known.empty(), "{} is {}; name another file", path, known);
  WEFT_VALIDATE(
      type,
      "{} is of no format that is known (there is no {}, as Megatron-LM has it, and it does not "
      "begin as llm.c's files do); name another file, or add --raw 2 or --raw 4 if it is nothing but "
      "tokens of that many bytes",
      path, no_index);
  const int read = *type == TokenType::u16 ? 1 : 7;
  WEFT_VALIDATE(header.version == read,
                "{} has version {} of llm.c's format (this Weft reads {}); convert it", path, header.version,
                read);
  WEFT_VALIDATE(size >= llmc_header_bytes,
                "{} is truncated ({} bytes, llm.c's header alone has {}); copy it again", path, size,
                llmc_header_bytes);
  auto tokens = std::make_unique<Stream>(path, "llm.c", *type, std::move(file), llmc_header_bytes);
  WEFT_VALIDATE(tokens->tokens() == header.tokens, "{} has {} tokens (its header says {}); copy it again",
                path, tokens->tokens(), header.tokens);
  return tokens;
}

std::unique_ptr<ForeignTokens> open_raw(const std::string& path, TokenType type) {
  auto file = std::make_unique<FileReader>("file of tokens", path, io::Named::by_user);
  const std::string_view known = known_by(file->beginning(16));
  WEFT_VALIDATE(known.empty(),
                "{} has more than tokens in it (it is {}); leave out --raw, or name another file", path,
                known);
  return std::make_unique<Stream>(path, "raw", type, std::move(file), 0);
}

/// The element type of a number in Megatron-LM's index; nothing for one that is no type of tokens, or that
/// has a sign and fewer than 32 bits.
std::optional<TokenType> megatron_type(std::uint8_t code) {
  switch (code) {
    case 1: return TokenType::u8;
    case 4: return TokenType::i32;
    case 5: return TokenType::i64;
    case 8: return TokenType::u16;
    case 9: return TokenType::u32;  // Megatron-DeepSpeed's
    default: return std::nullopt;
  }
}

constexpr std::array<char, 9> megatron_magic{'M', 'M', 'I', 'D', 'I', 'D', 'X', '\0', '\0'};

/// The index: its magic, u64 version, u8 element type, u64 sequences, u64 starts; then the i32 tokens of each
/// sequence, the i64 byte where it begins, and the i64 sequences at which documents begin, the last one their
/// end.
class Megatron : public ForeignTokens {
 public:
  Megatron(const std::string& bin, const std::string& idx)
      : ForeignTokens(bin, "Megatron-LM"), index_("index", idx, io::Named::by_user) {
    index_path_ = idx;
    read_header();
    lengths_.emplace(index_, header_bytes, sequences_);
    starts_.emplace(index_, header_bytes + 12 * sequences_, starts_count_);
    check_sequences();
    check_starts();
    file_ = std::make_unique<FileReader>("file of tokens", bin, io::Named::by_user);
    const std::int64_t bytes = file_->size(), size = static_cast<std::int64_t>(size_of(type_));
    WEFT_VALIDATE(bytes == tokens_ * size, "{} has {} bytes (its index {} says {}); copy both again", bin,
                  bytes, idx, tokens_ * size);
    starts_->next();  // that of the first document
  }

 private:
  static constexpr std::int64_t header_bytes = 9 + 8 + 1 + 8 + 8;

  void read_header() {
    const std::int64_t size = index_.size();
    std::array<char, header_bytes> bytes{};
    index_.read(bytes.data(), static_cast<std::size_t>(std::min(size, header_bytes)), 0);
    WEFT_VALIDATE(
        size >= header_bytes && std::equal(megatron_magic.begin(), megatron_magic.end(), bytes.begin()),
        "{} is no index that this Weft reads (it does not begin with MMIDIDX, as those of Megatron-LM's mmap "
        "files do); convert it, or name another file",
        index_path_);
    std::uint64_t version = 0, sequences = 0, starts = 0;
    std::memcpy(&version, bytes.data() + 9, 8);
    std::memcpy(&sequences, bytes.data() + 18, 8);
    std::memcpy(&starts, bytes.data() + 26, 8);
    WEFT_VALIDATE(version == 1, "the index {} has version {} (this Weft reads 1); convert it", index_path_,
                  version);
    const auto code = static_cast<std::uint8_t>(bytes[17]);
    const auto type = megatron_type(code);
    WEFT_VALIDATE(
        type,
        "the index {} has elements of type {} (this Weft reads 1, 4, 5, 8 and 9: uint8, int32, int64, uint16 "
        "and uint32); convert it",
        index_path_, code);
    type_ = *type;
    constexpr std::uint64_t most = std::uint64_t{1} << 56;  // with it no sum below leaves 64 bits
    const bool fits = sequences <= most && starts <= most &&
                      size == header_bytes + static_cast<std::int64_t>(12 * sequences + 8 * starts);
    WEFT_VALIDATE(fits,
                  "the index {} has {} bytes, which {} sequences and {} documents do not take; copy it again "
                  "(one of fairseq, or with the modes of a multimodal dataset, cannot be read)",
                  index_path_, size, sequences, starts);
    sequences_ = static_cast<std::int64_t>(sequences);
    starts_count_ = static_cast<std::int64_t>(starts);
  }

  /// Adds up the tokens. Sequences lie one behind the other.
  void check_sequences() {
    Column<std::int32_t> lengths(index_, header_bytes, sequences_);
    Column<std::int64_t> pointers(index_, header_bytes + 4 * sequences_, sequences_);
    for (std::int64_t i = 0; i < sequences_; ++i) {
      const std::int32_t length = *lengths.next();
      const std::int64_t pointer = *pointers.next();
      WEFT_VALIDATE(
          length >= 0 && pointer == tokens_ * static_cast<std::int64_t>(size_of(type_)),
          "the index {} is damaged (sequence {} has {} tokens, and begins at byte {} instead of {}); copy "
          "it again",
          index_path_, i, length, pointer, tokens_ * static_cast<std::int64_t>(size_of(type_)));
      tokens_ += length;
    }
  }

  /// Documents lie one behind the other, too, from the first sequence to the last.
  void check_starts() {
    Column<std::int64_t> starts(index_, header_bytes + 12 * sequences_, starts_count_);
    std::int64_t last = 0;
    for (std::int64_t i = 0; i < starts_count_; ++i) {
      const std::int64_t start = *starts.next();
      WEFT_VALIDATE(
          i == 0 ? start == 0 : start >= last,
          "the index {} is damaged (document {} begins at sequence {}, the one before it at {}); copy "
          "it again",
          index_path_, i, start, last);
      last = start;
    }
    WEFT_VALIDATE(last == sequences_,
                  "the index {} is damaged (its documents end at sequence {}, and it has {}); copy it again",
                  index_path_, last, sequences_);
  }

  std::int64_t next_document() override {
    std::int64_t tokens = 0;
    while (tokens == 0) {
      const auto end = starts_->next();
      WEFT_VALIDATE(end, "the index {} has changed while it was read; leave it as it is, and start again",
                    index_path_);
      for (; sequence_ < *end; ++sequence_) tokens += lengths_->next().value_or(0);
    }
    return tokens;
  }

  FileReader index_;
  std::int64_t sequences_ = 0, starts_count_ = 0;
  std::int64_t sequence_ = 0;
  std::optional<Column<std::int32_t>> lengths_;
  std::optional<Column<std::int64_t>> starts_;
};

}  // namespace

std::size_t size_of(TokenType type) {
  switch (type) {
    case TokenType::u8: return 1;
    case TokenType::u16: return 2;
    case TokenType::i32:
    case TokenType::u32: return 4;
    case TokenType::i64: return 8;
  }
  return 0;
}

bool ForeignTokens::next(std::vector<std::int64_t>& ids) {
  if (position_ == tokens_) return false;
  if (left_in_document_ == 0) left_in_document_ = next_document();
  std::int64_t count = std::min(piece_tokens, tokens_ - position_);
  if (left_in_document_ > 0) count = std::min(count, left_in_document_);
  const std::size_t size = size_of(type_);
  piece_.resize(static_cast<std::size_t>(count) * size);
  file_->read(piece_.data(), piece_.size(), first_byte_ + position_ * static_cast<std::int64_t>(size));
  switch (type_) {
    case TokenType::u8: widen<std::uint8_t>(piece_, ids); break;
    case TokenType::u16: widen<std::uint16_t>(piece_, ids); break;
    case TokenType::i32: widen<std::int32_t>(piece_, ids); break;
    case TokenType::u32: widen<std::uint32_t>(piece_, ids); break;
    case TokenType::i64: widen<std::int64_t>(piece_, ids); break;
  }
  position_ += count;
  if (left_in_document_ > 0) left_in_document_ -= count;
  return true;
}

std::unique_ptr<ForeignTokens> open_foreign_tokens(const std::string& path, int raw_bytes) {
  if (raw_bytes != 0) return open_raw(path, raw_bytes == 2 ? TokenType::u16 : TokenType::u32);
  // Megatron-LM's own programs take the prefix, shells complete one of the two names.
  std::string prefix = path;
  for (const std::string_view extension : {".bin", ".idx"})
    if (prefix.ends_with(extension)) {
      prefix.resize(prefix.size() - extension.size());
      break;
    }
  if (io::is_there(prefix + ".idx")) return std::make_unique<Megatron>(prefix + ".bin", prefix + ".idx");
  WEFT_VALIDATE(io::is_there(path) || !io::is_there(prefix + ".bin"),
                "{}.bin is there without its index {}.idx (Megatron-LM writes both); copy the index, too",
                prefix, prefix);
  return open_llmc(path, prefix + ".idx");
}

}  // namespace weft::data
