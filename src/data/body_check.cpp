#include "data/body_check.hpp"

#include <algorithm>
#include <vector>

#include "base/check.hpp"
#include "base/hash.hpp"
#include "data/file_reader.hpp"
#include "data/token_format.hpp"

namespace weft::data {

bool check_body(const TokenFile& file, const std::function<bool(std::int64_t bytes)>& goes_on) {
  const FileReader reader("token file", file.path(), io::Named::by_weft);
  WEFT_VALIDATE(
      storage_identity(reader.fd(), file.path()) == file.identity(),
      "the token file {} has been replaced since this run opened it; leave it as it is until the run ends",
      file.path());
  std::vector<std::byte> piece(hash_piece);
  std::uint64_t hash = 0;
  const std::int64_t end = file.bytes();
  for (std::int64_t at = sizeof(TokenHeader); at < end;) {
    const auto n = static_cast<std::size_t>(std::min<std::int64_t>(hash_piece, end - at));
    reader.read(piece.data(), n, at);
    hash = hash_bytes(piece.data(), n, hash);
    at += static_cast<std::int64_t>(n);
    if (!goes_on(at)) return false;
  }
  WEFT_VALIDATE(hash == file.body_hash(),
                "the token file {} is damaged (the checksum of its body is wrong); copy it again",
                file.path());
  return true;
}

}  // namespace weft::data
