// Names folders by the time at which they are made, and by a number if two are made at once.
// Chapter 02.
#include "examples/programs/run_folder.h"

#include <fmt/chrono.h>

#include <ctime>

#include "autograd/error.h"
#include "nn/checkpoint/file.h"

namespace plangrad::examples {

namespace fs = std::filesystem;

fs::path new_run_folder(const std::string& name) {
  const std::time_t now = std::time(nullptr);
  const std::string usual = fmt::format("{:%Y-%m-%d-%H%M%S}-{}", fmt::localtime(now), name);
  nn::make_folder(latest_run.parent_path());
  fs::path folder = latest_run.parent_path() / usual;
  std::error_code problem;
  for (int number = 2; !fs::create_directory(folder, problem); ++number) {
    PG_CHECK(!problem, "can't make the folder ", folder.string(), ": ", problem.message(),
             "; name another with --out");
    folder = latest_run.parent_path() / autograd::text(usual, '-', number);
  }
  return folder;
}

void point_latest_to(const fs::path& folder) {
  fs::path link = latest_run;
  link += autograd::text(".", folder.filename().string());
  std::error_code ignored;  // a file system without links has no newest run
  fs::remove(link, ignored);
  fs::create_directory_symlink(folder.filename(), link, ignored);
  if (!ignored) fs::rename(link, latest_run, ignored);
}

}  // namespace plangrad::examples
