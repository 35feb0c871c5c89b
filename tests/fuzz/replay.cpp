// The main() of a fuzz target without libFuzzer (in the preset asan, which needs no clang):
//
//   fuzz_TARGET [--changes N --length BYTES] FILE...
//
// It runs the target for each file, or instead for N changes of the files. These are always the same, and
// each is at most BYTES long. Nothing guides them to code that was not reached yet, as libFuzzer does
// (tests/fuzz/run.sh). When the process ends at a change, it writes that to fuzz_TARGET.input, in the current
// directory, and `fuzz_TARGET fuzz_TARGET.input` shows it again.
#include <sanitizer/common_interface_defs.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "fuzz.hpp"

// A custom mutator of libFuzzer. Those targets define it whose checksums would otherwise refuse every change.
extern "C" __attribute__((weak)) std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                                                     std::size_t max_size, unsigned seed);

namespace {

using Bytes = std::vector<std::uint8_t>;

std::mt19937 generator(1);
std::vector<Bytes> corpus;

std::size_t below(std::size_t end) {
  return end == 0 ? 0 : generator() % end;
}

Bytes piece_of(const Bytes& bytes) {
  const std::size_t begin = below(bytes.size()),
                    size = below(std::min<std::size_t>(bytes.size() - begin, 32) + 1);
  return {bytes.begin() + static_cast<std::ptrdiff_t>(begin),
          bytes.begin() + static_cast<std::ptrdiff_t>(begin + size)};
}

// Makes one change: flips a bit, sets a byte, leaves out a few bytes, inserts a piece of one of the files, or
// writes such a piece over what is there.
void change(Bytes& bytes) {
  const Bytes piece = piece_of(corpus[below(corpus.size())]);
  const std::size_t at = below(bytes.size());
  const auto place = bytes.begin() + static_cast<std::ptrdiff_t>(at);
  if (bytes.empty()) {
    bytes = piece;
    return;
  }
  switch (below(5)) {
    case 0: bytes[at] ^= static_cast<std::uint8_t>(1U << below(8)); break;
    case 1: bytes[at] = static_cast<std::uint8_t>(below(256)); break;
    case 2:
      bytes.erase(place, place + static_cast<std::ptrdiff_t>(std::min(below(16) + 1, bytes.size() - at)));
      break;
    case 3: bytes.insert(place, piece.begin(), piece.end()); break;
    default: std::copy_n(piece.begin(), std::min(piece.size(), bytes.size() - at), place);
  }
}

// Runs the target on an allocation of the input's own size, so that a sanitizer sees what is read behind it.
void run(const Bytes& bytes) {
  const auto input = std::make_unique<std::uint8_t[]>(bytes.size());
  std::copy(bytes.begin(), bytes.end(), input.get());
  LLVMFuzzerTestOneInput(input.get(), bytes.size());
}

Bytes bytes_of(const char* file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) {
    std::fprintf(stderr, "replay: %s cannot be read; give files of the corpus\n", file);
    std::exit(2);
  }
  return {std::istreambuf_iterator<char>(in), {}};
}

const Bytes* running = nullptr;  ///< the change that the target works on
std::string kept;                ///< where it is written when the process ends there

void keep_running() {
  if (running == nullptr) return;
  std::ofstream(kept, std::ios::binary)
      .write(reinterpret_cast<const char*>(running->data()), static_cast<std::streamsize>(running->size()));
  std::fprintf(stderr, "The change is in %s.\n", kept.c_str());
}

void end_with(int signal) {
  std::fprintf(stderr, signal == SIGALRM ? "One change takes too long.\n" : "A promise is broken.\n");
  keep_running();
  std::_Exit(1);
}

void run_changes(long count, std::size_t length) {
  constexpr unsigned longest = 60;  // seconds
  __sanitizer_set_death_callback(keep_running);
  std::signal(SIGABRT, end_with);  // also by an exception that nobody catches
  std::signal(SIGALRM, end_with);
  for (long i = 0; i < count; ++i) {
    Bytes bytes = corpus[below(corpus.size())];
    const std::size_t changes = below(4) + 1;
    for (std::size_t c = 0; c < changes; ++c) {
      std::size_t size = std::min(bytes.size(), length);
      bytes.resize(length);  // libFuzzer's mutators work in place
      size = LLVMFuzzerCustomMutator ? LLVMFuzzerCustomMutator(bytes.data(), size, length, generator())
                                     : LLVMFuzzerMutate(bytes.data(), size, length);
      bytes.resize(size);
    }
    running = &bytes;
    ::alarm(longest);
    run(bytes);
    running = nullptr;
  }
}

}  // namespace

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size) {
  Bytes bytes(data, data + size);
  change(bytes);
  bytes.resize(std::min(bytes.size(), max_size));
  std::copy(bytes.begin(), bytes.end(), data);
  return bytes.size();
}

int main(int argc, char** argv) {
  std::vector<const char*> files(argv + 1, argv + argc);
  long changes = 0;
  std::size_t length = 0;
  if (files.size() > 4 && std::strcmp(files[0], "--changes") == 0 && std::strcmp(files[2], "--length") == 0) {
    changes = std::stol(files[1]);
    length = std::stoul(files[3]);
    files.erase(files.begin(), files.begin() + 4);
  }
  if (files.empty()) {
    std::fprintf(stderr, "replay: no files (a corpus is never empty); name at least one\n");
    return 2;
  }
  for (const char* file : files) corpus.push_back(bytes_of(file));
  if (changes > 0) {
    kept = std::string(argv[0]).substr(std::string(argv[0]).rfind('/') + 1) + ".input";
    run_changes(changes, length);
    std::fprintf(stderr, "%ld changes of %zu files, all promises kept\n", changes, files.size());
    return 0;
  }
  for (std::size_t i = 0; i < files.size(); ++i) {
    std::fprintf(stderr, "Running: %s\n", files[i]);  // the last file named is the one that ended the process
    run(corpus[i]);
  }
  std::fprintf(stderr, "%zu files, all promises kept\n", files.size());
}
