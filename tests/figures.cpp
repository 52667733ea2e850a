// See figures.h.
#include "tests/figures.h"

#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/catch.h"
#include "tests/folders.h"

namespace plangrad::tests {

void check_figure(const std::string& name, const std::string& said) {
  namespace fs = std::filesystem;
  const fs::path file = fs::path(clone_path("tutorials/figures")) / (name + ".md");
  std::ifstream in(file);
  const std::string shown(std::istreambuf_iterator<char>(in), {});
  if (shown != said) {
    const fs::path now = fs::path(program_path("figures")) / file.filename();
    fs::create_directories(now.parent_path());
    std::ofstream(now) << said;
    FAIL_CHECK(file.string() << " is out of date. Copy " << now.string()
                             << " there, then run weave.sh");
  }
  SUCCEED();
}

}  // namespace plangrad::tests
