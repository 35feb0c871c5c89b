#include "io/named_path.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "base/check.hpp"
#include "io/storage_wait.hpp"

namespace weft::io {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const char* what, const std::string& path, const std::error_code& error) {
  const ExitCode code = exit_code_of_named_file(error.value());
  throw Error(code, fmt::format("cannot {} {} ({}); {}", what, path, error.message(),
                                code == ExitCode::bad_input ? "name what is there, and may be looked at"
                                                            : "see to its file system, then start again"));
}

fs::file_type type_of(const std::string& path, fs::file_status (*look)(const fs::path&, std::error_code&)) {
  const StorageWait wait("stat", path);
  std::error_code error;
  const fs::file_type type = look(path, error).type();
  if (type == fs::file_type::none) fail("look at", path, error);
  return type;
}

}  // namespace

bool is_there(const std::string& path) {
  return type_of(path, fs::status) != fs::file_type::not_found;
}

bool is_directory(const std::string& path) {
  return type_of(path, fs::status) == fs::file_type::directory;
}

bool is_taken(const std::string& path) {
  return type_of(path, fs::symlink_status) != fs::file_type::not_found;
}

std::vector<std::string> names_in(const std::string& dir) {
  const StorageWait wait("list", dir);
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(dir, error); !error && at != fs::directory_iterator(); at.increment(error))
    names.push_back(at->path().filename().string());
  if (error) fail("list", dir, error);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace weft::io
