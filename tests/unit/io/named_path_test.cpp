#include "io/named_path.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

#include "base/check.hpp"
#include "support/temporary_directory.hpp"

namespace weft::io {
namespace {

namespace fs = std::filesystem;

/// A directory with one of each kind of name.
class NamedPath : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directory(dir_ / "directory");
    std::ofstream(dir_ / "file") << "";
    fs::create_symlink("directory", std::string(dir_ / "link"));
    fs::create_symlink("nothing", std::string(dir_ / "broken"));
    fs::create_symlink("loop", std::string(dir_ / "loop"));
  }
  std::string path(const std::string& name) const { return dir_ / name; }

  test::TemporaryDirectory dir_;
};

TEST_F(NamedPath, EachKindOfNameIsWhatItIs) {
  struct Kind {
    const char* name;
    bool is_there, is_directory, is_taken;
  };
  for (const Kind& kind : {Kind{"directory", true, true, true},
                           {"file", true, false, true},
                           {"link", true, true, true},
                           {"broken", false, false, true},
                           {"nothing", false, false, false},
                           {"file/x", false, false, false}}) {
    SCOPED_TRACE(kind.name);
    EXPECT_EQ(is_there(path(kind.name)), kind.is_there);
    EXPECT_EQ(is_directory(path(kind.name)), kind.is_directory);
    EXPECT_EQ(is_taken(path(kind.name)), kind.is_taken);
  }
  EXPECT_EQ(names_in(path("")), (std::vector<std::string>{"broken", "directory", "file", "link", "loop"}));
  EXPECT_EQ(names_in(path("directory")), std::vector<std::string>{});
}

TEST_F(NamedPath, WhatCannotBeLookedAtIsTheUsersMistake) {
  const std::string long_name(300, 'n');
  const auto refused = [&](const std::string& name, const std::function<void(const std::string&)>& look) {
    try {
      look(path(name));
      FAIL() << name << " was looked at";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::bad_input);
      EXPECT_NE(std::string(e.what()).find(path(name) + " ("), std::string::npos) << e.what();
    }
  };
  for (const std::string& name : {std::string("loop"), std::string("loop/x"), long_name}) {
    refused(name, is_there);
    refused(name, is_directory);
    if (name != "loop") refused(name, is_taken);
    refused(name, names_in);
  }
  EXPECT_TRUE(is_taken(path("loop")));
  for (const char* name : {"nothing", "file", "file/x", "broken"}) refused(name, names_in);
}

}  // namespace
}  // namespace weft::io
