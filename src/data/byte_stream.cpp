#include "data/byte_stream.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "base/check.hpp"

namespace weft::data {
namespace {

constexpr std::size_t stream_block = std::size_t{1} << 18;
constexpr int gzip_only =
    15 + 16;  ///< zlib's number for the largest window and a header and a trailer of gzip

}  // namespace

ByteStream::ByteStream(const std::string& path)
    : path_(path), file_(path == "-" ? ::dup(STDIN_FILENO) : ::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
  if (file_.get() < 0)
    throw Error(exit_code_of_named_file(errno),
                fmt::format("cannot open the text {} ({}); check the path", path, std::strerror(errno)));
  input_.resize(stream_block);
  // A pipe may hand out the two bytes by which gzip is known one by one.
  std::size_t have = 0;
  while (have < 2) {
    const std::size_t n = read_input(input_.data() + have, input_.size() - have);
    if (n == 0) break;
    have += n;
  }
  zip_.next_in = input_.data();
  zip_.avail_in = static_cast<uInt>(have);
  is_gzip_ = inside_ = have >= 2 && input_[0] == 0x1f && input_[1] == 0x8b;
  if (is_gzip_ && inflateInit2(&zip_, gzip_only) != Z_OK) throw std::bad_alloc();
}

ByteStream::~ByteStream() {
  if (is_gzip_) inflateEnd(&zip_);
}

bool ByteStream::read(std::string& out) {
  const std::size_t before = out.size();
  out.resize(before + stream_block);
  char* const to = out.data() + before;
  const std::size_t n = is_gzip_ ? unpack(to, stream_block) : copy(to, stream_block);
  out.resize(before + n);
  return n > 0;
}

std::size_t ByteStream::read_input(unsigned char* to, std::size_t room) {
  for (;;) {
    const ssize_t n = ::read(file_.get(), to, room);
    if (n >= 0) return static_cast<std::size_t>(n);
    const int why = errno;
    if (why == EINTR) continue;
    throw Error(exit_code_of_named_file(why),
                fmt::format("cannot read the text {} ({}); check the path, or try again when it can be read",
                            path_, std::strerror(why)));
  }
}

/// Reads on when all that was read has been used. Returns false at the end of the file.
bool ByteStream::fill() {
  if (zip_.avail_in > 0) return true;
  zip_.next_in = input_.data();
  zip_.avail_in = static_cast<uInt>(read_input(input_.data(), input_.size()));
  return zip_.avail_in > 0;
}

std::size_t ByteStream::copy(char* to, std::size_t room) {
  if (!fill()) return 0;
  const std::size_t n = std::min<std::size_t>(room, zip_.avail_in);
  std::memcpy(to, zip_.next_in, n);
  zip_.next_in += n;
  zip_.avail_in -= static_cast<uInt>(n);
  return n;
}

/// Inflates as much as there is room for; less only at the end of the file.
std::size_t ByteStream::unpack(char* to, std::size_t room) {
  zip_.next_out = reinterpret_cast<unsigned char*>(to);
  zip_.avail_out = static_cast<uInt>(room);
  while (zip_.avail_out > 0 && (inside_ || begin_member())) {
    fill();
    const int code = ::inflate(&zip_, Z_NO_FLUSH);
    if (code == Z_MEM_ERROR) throw std::bad_alloc();
    // There is room, so that only the end of the file can leave nothing to do.
    const char* const why = code == Z_BUF_ERROR ? "unexpected end of file" : zip_.msg;
    WEFT_VALIDATE(code == Z_OK || code == Z_STREAM_END,
                  "cannot read the text {} ({}); copy or compress it again", path_,
                  why != nullptr ? why : zError(code));
    inside_ = code == Z_OK;
  }
  return room - zip_.avail_out;
}

/// Begins the next gzip member. Returns false when there is none.
bool ByteStream::begin_member() {
  if (!fill()) return false;
  if (*zip_.next_in != 0x1f) {
    pass_padding();
    return false;
  }
  inflateReset(&zip_);
  return true;
}

/// Reads to the end of the file, where nothing but zeros may stand: what gzip(1) would leave out with a
/// warning is text that the user believes to be read.
void ByteStream::pass_padding() {
  for (; fill(); zip_.avail_in = 0) {
    const unsigned char* const end = zip_.next_in + zip_.avail_in;
    WEFT_VALIDATE(std::all_of(static_cast<const unsigned char*>(zip_.next_in), end,
                              [](unsigned char c) { return c == 0; }),
                  "cannot read the text {} (what follows its gzip data is not gzip); compress all of its "
                  "parts, or none",
                  path_);
  }
}

}  // namespace weft::data
