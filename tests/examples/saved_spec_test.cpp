// Requests for plans: which fields a schedule has, and what runs save of them and find again.
// Not here: flags of programs (schedule_flags_test.cpp).
#include "examples/programs/plan_flags.h"

#include <nlohmann/json.hpp>

#include "nn/checkpoint/file.h"
#include "tests/catch.h"
#include "tests/folders.h"

namespace plangrad::parallel {
namespace {

using namespace examples;
using nlohmann::json;

/// Ranks and flags that train_gpt saved: of the oldest checkpoint that we keep, and as of
/// 2026-11-27 of a run of each schedule, some with codecs, a setting, lost ranks or a gap.
std::vector<json> saved_runs() {
  const std::string oldest = "tests/references/checkpoint_v1/checkpoint/manifest.json";
  const json manifest = json::parse(nn::read_file(tests::clone_path(oldest)));
  std::vector<json> runs;
  runs.push_back({{"ranks", 1}, {"flags", manifest["run"]["flags"]}});
  const auto is_known = [](const json& flags) {  // schedules and codecs are leaves
    const std::string codec = flags.value("--codec", "none");
    return std::ranges::count(schedule_names(), flags["--schedule"].get<std::string>()) > 0 &&
           std::ranges::count(codec_kinds(), codec.substr(0, codec.find(':')), &CodecKind::name) >
               0;
  };
  for (const json& run :
       json::parse(nn::read_file(tests::clone_path("tests/references/saved_flags.json"))))
    if (is_known(run["flags"])) runs.push_back(run);
  return runs;
}

std::vector<std::string> shown(const PlanSpec& spec) {
  std::vector<std::string> all;
  for (const SpecField* field : spec_fields()) all.push_back(field->show(spec));
  return all;
}

TEST_CASE("flags that runs saved are read back, and saved as they were") {
  for (const json& run : saved_runs()) {
    CAPTURE(run["flags"].dump());
    const PlanSpec spec = saved_spec(run["flags"]);
    json again = run["flags"];
    for (const SpecField* field : spec_fields())
      if (!field->of_plans) again.erase(field->flag_name());
    save_fields(spec, again);
    for (const SpecField* field : spec_fields())  // a later field has its default
      if (!run["flags"].contains(field->flag_name()) &&
          field->show(spec) == field->show(PlanSpec()))
        again.erase(field->flag_name());
    if (spec.cyclic()) again.erase("--microbatches");
    CHECK(again == run["flags"]);
    Layout layout = spec.layout;
    if (spec.cyclic()) layout.microbatches = layout.stages;
    spec.check_own_fields();
    check_layout(spec.behaviour(), layout);
    CHECK(spec.behaviour().ranks(with_defaults(spec.behaviour(), layout)) == run["ranks"]);
  }
}

TEST_CASE("words of a command ask for the same plan") {
  for (const json& run : saved_runs()) {
    const PlanSpec spec = saved_spec(run["flags"]);
    json flags;
    for (const std::string& word : words_of(spec)) {
      CHECK(word.starts_with("--"));
      flags[word.substr(0, word.find('='))] = word.substr(word.find('=') + 1);
    }
    const PlanSpec again = saved_spec(flags);
    CHECK(shown(again) == shown(spec));
    CHECK(again.given == spec.given);
  }
}

TEST_CASE("a field that a schedule does not have is refused, and says which schedules have it") {
  PlanSpec spec = saved_spec({{"--schedule", "gpipe"}, {"--in-flight", 2}});
  CHECK_THROWS_WITH(spec.check_own_fields(), Contains("--in-flight 2: the schedule gpipe has no"));
  spec = saved_spec({{"--schedule", "gpipe"}, {"--stages", 4}});
  spec.check_own_fields();
  CHECK(spec.given == std::set<std::string>{"schedule", "stages"});
  CHECK_THROWS_WITH(saved_spec({{"--stages", 0}}), Contains("--stages: expected a whole number"));
  CHECK_THROWS_WITH(saved_spec({{"--codec", "nope"}}), Contains("--codec: nope"));
}

}  // namespace
}  // namespace plangrad::parallel
