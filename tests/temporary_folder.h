// TemporaryFolder: a name for a new folder of a test, for ranks that are threads of it; what they
// write there is gone with it. Not here: folders of programs that tests run (examples/programs.h).
#pragma once

#include <unistd.h>

#include <filesystem>
#include <string>

namespace paragrad::tests {

struct TemporaryFolder {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("paragrad_" + std::to_string(::getpid()));
  TemporaryFolder() { std::filesystem::remove_all(path); }
  ~TemporaryFolder() { std::filesystem::remove_all(path); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
};

}  // namespace paragrad::tests
