#include "ckpt/fetch.hpp"

#include <algorithm>
#include <iterator>
#include <tuple>

#include "base/check.hpp"
#include "ckpt/mismatch.hpp"
#include "ckpt/shard_reader.hpp"
#include "ckpt/slices_file.hpp"
#include "ckpt/stored_files.hpp"

namespace weft::ckpt {

namespace {

[[noreturn]] void fail(const std::string& message) {
  throw Error(ExitCode::bad_checkpoint, message);
}

/// What a request and a slice have in common, as a piece of the slice.
detail::Piece piece_of(const Request& request, const ShardSlice& slice) {
  const std::int64_t begin = std::max(request.begin, slice.begin);
  const std::int64_t end = std::min(request.begin + request.count, slice.begin + slice.count);
  detail::Piece piece{begin - slice.begin, end - begin, nullptr, {}};
  const std::int64_t at = begin - request.begin;
  if (request.out != nullptr)
    piece.out = request.out + at * static_cast<std::int64_t>(size_of(slice.dtype));
  else
    piece.put = [&request, at](std::int64_t part, std::int64_t count, const std::byte* data) {
      request.put(at + part, count, data);
    };
  return piece;
}

}  // namespace

Fetcher::Fetcher(const Manifest& manifest, std::vector<Request> requests)
    : manifest_(manifest), held_(std::size(all_roles) * manifest.units.size()) {
  for (Request& r : requests)
    if (r.count > 0) wanted_.push_back({std::move(r), 0, {}});
  std::sort(wanted_.begin(), wanted_.end(), [](const Wanted& a, const Wanted& b) {
    return std::tie(a.request.role, a.request.unit, a.request.begin) <
           std::tie(b.request.role, b.request.unit, b.request.begin);
  });
  std::size_t at = 0;
  for (std::size_t vector = 0; vector < held_.size(); ++vector) {
    first_.push_back(at);
    std::int64_t reach = 0;
    for (; at < wanted_.size() && vector_of(wanted_[at].request.role, wanted_[at].request.unit) == vector;
         ++at)
      wanted_[at].reach = reach = std::max(reach, wanted_[at].request.begin + wanted_[at].request.count);
  }
  first_.push_back(at);
}

std::size_t Fetcher::vector_of(Role role, int unit) const {
  return static_cast<std::size_t>(role) * manifest_.units.size() + static_cast<std::size_t>(unit);
}

void Fetcher::take(const Shard& shard) {
  std::vector<std::size_t> slices;
  std::vector<std::vector<detail::Piece>> pieces;
  for (std::size_t i = 0; i < shard.slices.size(); ++i) {
    const ShardSlice& s = shard.slices[i];
    const std::size_t vector = vector_of(s.role, s.unit);
    held_[vector] = 1;
    const auto last = wanted_.begin() + static_cast<std::ptrdiff_t>(first_[vector + 1]);
    auto w = std::partition_point(wanted_.begin() + static_cast<std::ptrdiff_t>(first_[vector]), last,
                                  [&s](const Wanted& x) { return x.reach <= s.begin; });
    for (; w != last && w->request.begin < s.begin + s.count; ++w) {
      if (w->request.begin + w->request.count <= s.begin) continue;
      const std::string& unit = manifest_.units[static_cast<std::size_t>(s.unit)].path;
      if (s.dtype != w->request.dtype)
        throw Mismatch(fmt::format("{} of unit {} is {} in {} (and {} here); use the same [precision]",
                                   name_of(s.role), unit, weft::name_of(s.dtype), manifest_.dir,
                                   weft::name_of(w->request.dtype)));
      const detail::Piece piece = piece_of(w->request, s);
      if (!w->seen.add(s.begin + piece.begin, s.begin + piece.end()))
        fail(
            fmt::format("{} holds elements from {} of {} of unit {} twice; Weft writes no such checkpoint: "
                        "please report it",
                        manifest_.dir, s.begin + piece.begin, name_of(s.role), unit));
      if (slices.empty() || slices.back() != i) slices.push_back(i), pieces.emplace_back();
      pieces.back().push_back(piece);
    }
  }
  if (slices.empty()) return;
  try {
    detail::ShardReader reader(manifest_, shard);
    const std::vector<std::int64_t> offsets = reader.offsets_of(slices);
    for (std::size_t i = 0; i < slices.size(); ++i)
      reader.read(shard.slices[slices[i]], offsets[i], std::move(pieces[i]));
  } catch (const io::Incomplete& e) {
    detail::rethrow(manifest_, e);
  }
}

void Fetcher::finish() const {
  for (const Wanted& w : wanted_) {
    const Request& r = w.request;
    const std::string& unit = manifest_.units[static_cast<std::size_t>(r.unit)].path;
    if (held_[vector_of(r.role, r.unit)] == 0)
      throw Mismatch(fmt::format("{} holds no {} of unit {}; weights alone start a new run (model.init)",
                                 manifest_.dir, name_of(r.role), unit));
    const std::int64_t missing = w.seen.first_missing(r.begin, r.begin + r.count);
    if (missing != r.begin + r.count)
      fail(fmt::format(
          "{} lacks element {} of {} of unit {}; Weft writes no such checkpoint: please report it",
          manifest_.dir, missing, name_of(r.role), unit));
  }
}

void fetch(const Manifest& manifest, const std::vector<Request>& requests) {
  Fetcher fetcher(manifest, requests);
  detail::for_each_shard(manifest, [&](const Shard& shard) { fetcher.take(shard); });
  fetcher.finish();
}

DType dtype_of(const Manifest& manifest, Role role, int unit) {
  DType dtype = DType::f32;
  detail::for_each_shard(manifest, [&](const Shard& shard) {
    for (const ShardSlice& slice : shard.slices)
      if (slice.role == role && slice.unit == unit) dtype = slice.dtype;
  });
  return dtype;
}

std::vector<std::string> find_damage(const Manifest& manifest, const Shard& shard, bool direct_io) {
  try {
    return detail::ShardReader(manifest, shard).damage(direct_io);
  } catch (const std::exception& e) {
    return {e.what()};
  }
}

}  // namespace weft::ckpt
