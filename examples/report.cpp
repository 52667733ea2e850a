// report: one page that compares runs: their curves, numbers, and where their time, memory and
// bytes went. See --help. Not here: a run's own page, report.html, which the run writes
// (parallel/observers/run_record.h). Chapter 06.
#include <nlohmann/json.hpp>

#include "autograd/version.h"
#include "examples/pages/compare_runs.h"
#include "examples/pages/report_page.h"
#include "examples/programs/program.h"
#include "parallel/observers/recording.h"

/// Shortens the values of others' files as terminals do, which a page would show whole.
static bool shorten(int, nlohmann::json::parse_event_t, nlohmann::json& value) {
  if (value.is_string() && value.get_ref<const std::string&>().size() > 4000)
    value = plangrad::examples::printable_line(value.get<std::string>());
  return true;
}

int main(int argc, char** argv) {
  using namespace plangrad;
  examples::Flags flags(
      "Compares runs on one page: curves over each other; settings and numbers side by side, with "
      "differences; time, memory and bytes. A run's own page is report.html in its folder.",
      "report");
  std::vector<std::filesystem::path> runs;
  std::filesystem::path out = "comparison.html";
  flags.words("runs", runs, "RUN RUN ...", "the folders of two or more runs, as --out named them");
  flags.words("--out", out, "FILE", "the page to write").ends_in({".html"}).show_default();
  return examples::run_program(flags, [&] {
    flags.parse(argc, argv);
    nlohmann::json data = examples::usage([&] { return examples::compare_runs(runs); });
    data["command"] = parallel::command_line();
    data["version"] = autograd::version();
    data = nlohmann::json::parse(data.dump(), shorten);
    examples::write_result(out, examples::comparison_page(data["title"], data.dump()),
                           "comparison: " + out.string());
    return 0;
  });
}
