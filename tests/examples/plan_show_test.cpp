// plan show, verify and simulate: the text form, the timetable and the facts of every schedule.
// Not here: pictures (plan_draw_test), and what schedules, rules and times are (tests/parallel).
#include "tests/examples/plan_program.h"

#include <regex>

#include "parallel/schedules/schedule.h"
#include "tests/parallel/support/ordinary_schedules.h"

using namespace plangrad::tests;
namespace parallel = plangrad::parallel;

namespace {

constexpr int stages = 4, micros = 4, steps = 3;  // of small_plan

}  // namespace

TEST_CASE("plan show prints the text form of every schedule's plan") {
  for (const auto& [name, make] : ordinary_schedules()) {
    parallel::Layout layout{.stages = stages, .microbatches = micros, .steps = steps};
    CHECK(output_of(small_plan("show", name)) == print(parallel::make_plan(name, layout)));
    layout = {stages, 2, micros, steps, 5, true, true, true};
    CHECK(output_of(small_plan("show", name) + Words{"--data-parallel", "2", "--first", "5",
                                                     "--recompute", "--clip", "--tied"}) ==
          print(parallel::make_plan(name, layout)));
  }
}

TEST_CASE("plan show prints nothing that is too large to be read again") {
  for (const Words& words :
       {Words{"data", "--zero", "3", "--data-parallel", "128", "--stages", "8", "--microbatches",
              "8"},
        {"data", "--data-parallel", "950", "--microbatches", "160"},
        {"dualpipe", "--data-parallel", "249", "--stages", "4", "--microbatches", "2"}})
    CHECK_NOTHROW(parallel::parse(output_of(Words{"plan", "show", "--schedule"} + words)));
}

TEST_CASE("plan show adds a timetable in comments on request and on a terminal") {
  const Words words = small_plan("show", "gpipe");
  const std::string text = output_of(words), table = output_of(words + Words{"--table"});
  CHECK(table.starts_with(text));
  CHECK_THAT(table,
             Contains("\n# rank 0  0F0 0F1 0F2 0F3 ... ... ... ... ... ... ... ... ... 0B0 "));
  CHECK(parallel::parse(table) == parallel::parse(text));
  CHECK_THAT(run_on_terminal(words).output, Contains("\n# rank 3  ... ... ... 3F0 3F1 "));
  CHECK_THAT(output_of(words + Words{"--table", "--columns", "5"}),
             Contains("\n# rank 0  0F0 0F1 0F2 0F3 ...\n"));
}

TEST_CASE("plan show --json has the header, the rows as words, and the facts") {
  for (const auto& [name, make] : ordinary_schedules()) {
    nlohmann::json shown = json_of(small_plan("show", name));
    CHECK(shown.size() == 3);
    CHECK(shown["facts"] == json_of(small_plan("verify", name)));
    std::string text;  // the same plan, written from what was shown
    for (const auto& [key, value] : shown["header"].items()) {
      if (key == "stages" || value.empty()) continue;
      std::string words = value.is_boolean()  ? (value ? "1" : "0")
                          : value.is_string() ? value.get<std::string>()
                                              : value.dump();
      words = std::regex_replace(words, std::regex("\\],\\["), "/");
      text += ' ' + key + ' ' + std::regex_replace(words, std::regex("[\\[\\]]"), "");
    }
    text = "stages " + shown["header"]["stages"].dump() + text + '\n';
    for (const auto& row : shown["rows"]) {
      for (const std::string word : row) text += word + ' ';
      text += '\n';
    }
    CHECK(print(parallel::parse(text)) == output_of(small_plan("show", name)));
  }
  const auto encoded = json_of(
      {"plan", "show", "--schedule", "data", "--data-parallel", "2", "--codec", "quantize:4:64"});
  CHECK(encoded["header"]["codec"] == "quantize:4:64");
  CHECK(encoded["header"]["channel"] == "none");
  Folder folder;
  nlohmann::json shown = json_of({"plan", "show", folder.write("bad.plan", hanging_plan)});
  CHECK(shown["rows"][1][0] == "0a0<0");
  CHECK(shown["facts"]["verified"] == false);
  CHECK(shown["facts"]["rule"] == "hang");
  check_refused(small_plan("show", "gpipe") + Words{"--json", "--table"}, "three forms of a plan");
}
