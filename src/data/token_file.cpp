#include "data/token_file.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>

#include "base/check.hpp"
#include "base/hash.hpp"
#include "data/file_names.hpp"
#include "data/token_format.hpp"
#include "data/tokenizer.hpp"
#include "io/mapped_files.hpp"

namespace weft::data {

namespace {

/// A token file's bytes in memory.
struct Bytes {
  std::shared_ptr<const std::byte> data;
  std::size_t size = 0;
  std::string identity;  ///< what storage_identity() says; empty for what is no file
  bool mapped = false;

  /// Lets the pages of these bytes leave this process. They stay in the page cache, where the next read finds
  /// them.
  void release(std::size_t begin, std::size_t end) const;
};

/// Reading one page of a file maps its neighbours as well, as far as they are in the page cache: 64 KiB, or
/// the whole folio that it is cached in, up to a huge page (seen with Linux 6.18). Without releasing them,
/// all of the file would in time count as memory of each rank.
void Bytes::release(std::size_t begin, std::size_t end) const {
  constexpr std::size_t block = 2 << 20;  // the size of a huge page, to which mappings are aligned
  if (!mapped || begin >= end) return;
  const std::size_t before = reinterpret_cast<std::uintptr_t>(data.get() + begin) % block;
  const std::size_t after = block - reinterpret_cast<std::uintptr_t>(data.get() + end) % block;
  const std::size_t first = begin - std::min(begin, before), last = std::min(end + after, size);
  ::madvise(const_cast<std::byte*>(data.get()) + first, last - first, MADV_DONTNEED);
}

/// The error for a token file that cannot be opened, by errno.
Error cannot_open(const std::string& path, int why) {
  const ExitCode code = exit_code_of_named_file(why);
  const char* const advice = why == ENOENT                 ? "make it with `weft data tokenize`"
                             : code == ExitCode::bad_input ? "check the path and who may read it"
                                                           : "start again when it can be read";
  return {code, fmt::format("cannot open the token file {} ({}{}); {}", path, std::strerror(why),
                            why == ENOENT ? looked_for_from(path) : "", advice)};
}

Bytes map(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw cannot_open(path, errno);
  struct stat status {};
  const int unknown = ::fstat(fd, &status) == 0 ? 0 : errno;
  const bool regular = S_ISREG(status.st_mode);
  const std::size_t size = regular ? static_cast<std::size_t>(status.st_size) : 0;
  const std::string identity = regular ? storage_identity(fd, path) : std::string();
  void* mapped = size > 0 ? ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0) : nullptr;
  const int reason = errno;
  ::close(fd);
  WEFT_SYSTEM(unknown == 0, "cannot look at the token file {} ({}); start again when it can be read", path,
              std::strerror(unknown));
  WEFT_VALIDATE(size > 0, "{} is not a token file (it is {}); make one with `weft data tokenize`", path,
                regular ? "empty" : "not a regular file");
  WEFT_SYSTEM(mapped != MAP_FAILED,
              "cannot map the token file {} ({}); copy it to a file system that supports mmap", path,
              std::strerror(reason));
  const auto watch = std::make_shared<io::MappedFileWatch>(mapped, size, path);
  const auto unmap = [size, watch](const std::byte* data) { ::munmap(const_cast<std::byte*>(data), size); };
  return {std::shared_ptr<const std::byte>(static_cast<const std::byte*>(mapped), unmap), size, identity,
          true};
}

/// "node7-" for a file on a disk or in the memory of this host; empty for a file that other hosts may share.
std::string host_of_storage(int fd) {
  struct statfs system {};
  WEFT_SYSTEM(::fstatfs(fd, &system) == 0, "cannot look at the file system of an open file ({})",
              std::strerror(errno));
  constexpr std::array<std::uint32_t, 9> local{EXT4_SUPER_MAGIC,      XFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC,
                                               F2FS_SUPER_MAGIC,      TMPFS_MAGIC,     RAMFS_MAGIC,
                                               OVERLAYFS_SUPER_MAGIC, SQUASHFS_MAGIC,  0x2fc12fc1 /* ZFS */};
  if (std::find(local.begin(), local.end(), static_cast<std::uint32_t>(system.f_type)) == local.end())
    return {};
  std::array<char, 256> host{};
  WEFT_SYSTEM(::gethostname(host.data(), host.size() - 1) == 0, "cannot tell this host's name ({})",
              std::strerror(errno));
  return std::string(host.data()) + '-';
}

/// Whether the sections fill the file in their order. Each offset must be right as it stands, whatever the
/// header's checksum says: anyone can compute that.
bool sections_fit(const TokenHeader& header) {
  constexpr std::uint64_t most = std::uint64_t{1} << 56;  // with it no sum below leaves 64 bits
  const bool counts = header.tokens <= most && header.documents <= most && header.vocab <= most;
  const std::uint64_t tokens_end = sizeof header + header.tokens * header.token_size;
  return counts && header.tokens_offset == sizeof header &&
         header.documents_offset == (tokens_end + 7) / 8 * 8 &&
         header.token_bytes_offset == header.documents_offset + 8 * header.documents &&
         header.file_bytes == header.token_bytes_offset + 2 * header.vocab;
}

}  // namespace

struct TokenFile::Contents {
  std::string path;
  Bytes bytes;
  TokenHeader header;

  Contents(std::string file, Bytes contents);

  const std::byte* base() const { return bytes.data.get(); }
  const std::uint16_t* tokens16() const { return at<std::uint16_t>(header.tokens_offset); }
  const std::uint32_t* tokens32() const { return at<std::uint32_t>(header.tokens_offset); }
  const std::uint64_t* starts() const { return at<std::uint64_t>(header.documents_offset); }
  const std::uint16_t* token_bytes() const { return at<std::uint16_t>(header.token_bytes_offset); }

 private:
  void check_header() const;
  template <class T>
  const T* at(std::uint64_t offset) const {
    return reinterpret_cast<const T*>(base() + offset);
  }
};

TokenFile::Contents::Contents(std::string file, Bytes contents)
    : path(std::move(file)), bytes(std::move(contents)) {
  std::copy_n(base(), std::min(bytes.size, sizeof header), reinterpret_cast<std::byte*>(&header));
  check_header();
}

void TokenFile::Contents::check_header() const {
  WEFT_VALIDATE(bytes.size >= sizeof header.magic && header.magic == token_magic,
                "{} is not a token file (it does not start with WEFTTOK); make one with `weft data tokenize`",
                path);
  WEFT_VALIDATE(bytes.size >= sizeof header,
                "the token file {} is truncated ({} bytes, the header alone has {}); copy it again", path,
                bytes.size, sizeof header);
  WEFT_VALIDATE(
      header.version == token_version,
      "the token file {} has format version {} (this Weft reads {}); make it again with `weft data tokenize`",
      path, header.version, token_version);
  WEFT_VALIDATE(header.header_hash == hash_bytes(base(), offsetof(TokenHeader, header_hash)),
                "the header of the token file {} is damaged (its checksum is wrong); copy it again", path);
  WEFT_VALIDATE(bytes.size == header.file_bytes,
                "the token file {} is {} ({} bytes, its header says {}); copy it again", path,
                bytes.size < header.file_bytes ? "truncated" : "too long", bytes.size, header.file_bytes);
  constexpr std::uint64_t most_ids = std::numeric_limits<std::int32_t>::max();
  const std::int64_t end = header.end_of_document;
  const bool sound = (header.token_size == 2 || header.token_size == 4) && sections_fit(header) &&
                     header.vocab <= most_ids && end >= -1 && end < static_cast<std::int64_t>(header.vocab);
  WEFT_VALIDATE(sound,
                "the header of the token file {} contradicts itself (sizes of sections, or the vocabulary); "
                "make it again with `weft data tokenize`",
                path);
}

std::string_view name_of(TokenizerKind kind) {
  switch (kind) {
    case TokenizerKind::byte: return "byte";
    case TokenizerKind::sentencepiece: return "sentencepiece";
    case TokenizerKind::bpe: return "tokenizer.json";
    case TokenizerKind::unknown: break;
  }
  return "unknown";
}

TokenFile TokenFile::open(const std::string& path) {
  return TokenFile(std::make_shared<Contents>(path, map(path)));
}

TokenFile TokenFile::in_memory(const std::string& name, std::span<const std::byte> bytes) {
  const std::shared_ptr<const std::byte> borrowed(std::shared_ptr<void>(), bytes.data());
  return TokenFile(std::make_shared<Contents>(name, Bytes{borrowed, bytes.size(), {}, false}));
}

const std::string& TokenFile::path() const {
  return contents_->path;
}
std::int64_t TokenFile::tokens() const {
  return static_cast<std::int64_t>(contents_->header.tokens);
}
std::int64_t TokenFile::vocab() const {
  return static_cast<std::int64_t>(contents_->header.vocab);
}
std::int64_t TokenFile::documents() const {
  return static_cast<std::int64_t>(contents_->header.documents);
}
std::int64_t TokenFile::text_bytes() const {
  return static_cast<std::int64_t>(contents_->header.text_bytes);
}
int TokenFile::token_size() const {
  return static_cast<int>(contents_->header.token_size);
}
TokenizerKind TokenFile::tokenizer() const {
  return static_cast<TokenizerKind>(contents_->header.tokenizer);
}
std::uint64_t TokenFile::tokenizer_hash() const {
  return contents_->header.tokenizer_hash;
}
std::int32_t TokenFile::end_of_document() const {
  return contents_->header.end_of_document;
}
std::int64_t TokenFile::bytes() const {
  return static_cast<std::int64_t>(contents_->bytes.size);
}
std::uint64_t TokenFile::body_hash() const {
  return contents_->header.body_hash;
}
std::uint64_t TokenFile::fingerprint() const {
  return contents_->header.header_hash;
}
const std::string& TokenFile::identity() const {
  return contents_->bytes.identity;
}

void TokenFile::read(std::int64_t begin, std::int64_t count, std::int32_t* out) const {
  WEFT_VALIDATE(begin >= 0 && count >= 0 && begin <= tokens() && count <= tokens() - begin,
                "{}: {} tokens from {} on asked for (the file has {})", path(), count, begin, tokens());
  std::uint32_t largest = 0;
  const auto copy = [&](const auto* from) {
    for (std::int64_t i = 0; i < count; ++i) {
      const std::uint32_t id = from[begin + i];
      largest = std::max(largest, id);
      out[i] = static_cast<std::int32_t>(id);
    }
  };
  token_size() == 2 ? copy(contents_->tokens16()) : copy(contents_->tokens32());
  const auto byte_of = [&](std::int64_t token) {
    return contents_->header.tokens_offset + static_cast<std::uint64_t>(token * token_size());
  };
  contents_->bytes.release(byte_of(begin), byte_of(begin + count));
  WEFT_VALIDATE(count == 0 || largest < vocab(),
                "the token file {} is damaged (token {} in {} to {}, the vocabulary has {}); copy it again",
                path(), largest, begin, begin + count, vocab());
}

std::int64_t TokenFile::bytes_of(std::int64_t begin, std::int64_t count) const {
  std::int64_t bytes = 0;
  std::int32_t ids[4096];
  for (std::int64_t at = begin; at < begin + count;) {
    const std::int64_t n = std::min<std::int64_t>(begin + count - at, std::size(ids));
    read(at, n, ids);
    for (std::int64_t i = 0; i < n; ++i) bytes += contents_->token_bytes()[ids[i]];
    at += n;
  }
  return bytes;
}

std::int64_t TokenFile::token_bytes(std::int32_t id) const {
  WEFT_VALIDATE(id >= 0 && id < vocab(), "{}: token id {} asked for (the vocabulary has {})", path(), id,
                vocab());
  return contents_->token_bytes()[id];
}

std::int64_t TokenFile::document_start(std::int64_t i) const {
  WEFT_VALIDATE(i >= 0 && i <= documents(), "{}: document {} asked for (the file has {})", path(), i,
                documents());
  return i == documents() ? tokens() : static_cast<std::int64_t>(contents_->starts()[i]);
}

void TokenFile::verify() const {
  const std::size_t end = contents_->bytes.size;
  std::uint64_t hash = 0;
  for (std::size_t at = sizeof(TokenHeader); at < end; at += hash_piece) {
    const std::size_t n = std::min(hash_piece, end - at);
    hash = hash_bytes(contents_->base() + at, n, hash);
    contents_->bytes.release(at, at + n);
  }
  WEFT_VALIDATE(hash == contents_->header.body_hash,
                "the token file {} is damaged (the checksum of its body is wrong); copy it again", path());
  bool ordered = documents() == 0 || document_start(0) == 0;
  for (std::int64_t i = 0; i < documents(); ++i)
    ordered = ordered && document_start(i) <= document_start(i + 1);
  WEFT_VALIDATE(ordered && bytes_of(0, tokens()) == text_bytes(),
                "the token file {} contradicts itself (document starts or text bytes); make it again with "
                "`weft data tokenize`",
                path());
}

std::string storage_identity(int fd, const std::string& path) {
  struct stat status {};
  WEFT_SYSTEM(::fstat(fd, &status) == 0,
              "cannot look at the token file {} ({}); start again when it can be read", path,
              std::strerror(errno));
  return fmt::format("{}{}-{}-{}.{:09}", host_of_storage(fd), status.st_ino, status.st_size,
                     status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
}

void check_vocabulary(const TokenFile& file, std::int64_t model_vocab) {
  WEFT_VALIDATE(file.vocab() <= model_vocab,
                "the vocabulary of {} has {} tokens (model.vocab is {}); set model.vocab to at least {}, or "
                "tokenize with a smaller vocabulary",
                file.path(), file.vocab(), model_vocab, file.vocab());
}

namespace {

/// What shows that two files have different tokenizers; empty where nothing does.
std::string difference_of_tokenizers(const TokenFile& file, const TokenFile& other) {
  if (file.vocab() != other.vocab())
    return fmt::format("the vocabularies have {} and {} tokens", file.vocab(), other.vocab());
  if (file.end_of_document() != other.end_of_document())
    return fmt::format("documents end with token {} and with token {}", file.end_of_document(),
                       other.end_of_document());
  if (file.tokenizer_hash() != other.tokenizer_hash())
    return fmt::format("the tokenizers' hashes are {:016x} and {:016x}", file.tokenizer_hash(),
                       other.tokenizer_hash());
  for (std::int32_t id = 0; id < file.vocab(); ++id)
    if (file.token_bytes(id) != other.token_bytes(id))
      return fmt::format("token {} stands for {} bytes and for {}", id, file.token_bytes(id),
                         other.token_bytes(id));
  return {};
}

}  // namespace

void check_same_tokenizer(const TokenFile& file, const TokenFile& other) {
  const std::string difference = difference_of_tokenizers(file, other);
  WEFT_VALIDATE(difference.empty(),
                "{} was made by another tokenizer than {} ({}); make both with one tokenizer (`weft data "
                "tokenize --tokenizer FILE`)",
                file.path(), other.path(), difference);
}

void check_tokenizer(const TokenFile& file, const Tokenizer& tokenizer) {
  WEFT_VALIDATE(file.tokenizer_hash() == tokenizer.hash(),
                "{} was written by another tokenizer ({}, hash {:016x}, not {}, hash {:016x}); give the "
                "model it was made with",
                file.path(), name_of(file.tokenizer()), file.tokenizer_hash(), name_of(tokenizer.kind()),
                tokenizer.hash());
  WEFT_VALIDATE(file.end_of_document() == tokenizer.end_of_document(),
                "{} ends its documents with token {}, and this tokenizer with token {}; give the "
                "--end-of-document it was made with",
                file.path(), file.end_of_document(), tokenizer.end_of_document());
}

}  // namespace weft::data
