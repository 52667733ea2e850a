// TemporaryFolder: a new folder of a test's own, which nobody else can have made; what is written
// there is gone with it. Not here: folders of programs that tests run (examples/programs.h).
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "autograd/error.h"

namespace plangrad::tests {

struct TemporaryFolder {
  std::filesystem::path path;
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "plangrad-XXXXXX").string();
    PG_CHECK(::mkdtemp(name.data()), "can't make a folder like ", name);
    path = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  /// Writes a file there, and returns its path.
  std::filesystem::path file(const std::string& name, const std::string& bytes) const {
    std::ofstream(path / name, std::ios::binary) << bytes;
    return path / name;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
};

}  // namespace plangrad::tests
