// Runs side by side: what differs between them, and folders that are none.
#include "examples/pages/compare_runs.h"

#include <nlohmann/json.hpp>

#include "nn/checkpoint/file.h"
#include "tests/catch.h"
#include "tests/temporary_folder.h"

using namespace plangrad;
using namespace plangrad::examples;
using namespace plangrad::tests;
using nlohmann::json;

namespace {

std::filesystem::path write_run(const std::filesystem::path& folder, const json& flags,
                                const json& more = json::object()) {
  std::filesystem::create_directories(folder);
  json summary{{"config", {{"flags", flags}, {"model", {{"width", 64}}}}}, {"seconds", 2.5}};
  summary.update(more);
  nn::write_file(folder / "summary.json", summary.dump());
  nn::write_file(folder / "metrics.jsonl",
                 "{\"step\": 1, \"loss\": 3.5, \"seconds\": 0.5}\n{\"step\": 2, \"lo");
  return folder;
}

}  // namespace

TEST_CASE("a comparison names the settings that differ, and no others", "[compare]") {
  const TemporaryFolder folder;
  const json flags{{"--schedule", "2bw"}, {"--seed", 1}, {"--data", "a.txt"}};
  json other = flags;
  other["--schedule"] = "1f1b";
  other["--zero"] = 1;
  const json found =
      compare_runs({write_run(folder.path / "one", flags), write_run(folder.path / "two", other)});
  CHECK(found["differences"] == json{{{"what", "--schedule"}, {"values", {"2bw", "1f1b"}}},
                                     {{"what", "--zero"}, {"values", {nullptr, 1}}}});
  CHECK(found["warnings"].empty());
  REQUIRE(found["runs"].size() == 2);
  CHECK(found["runs"][1]["name"] == "two");
  CHECK(found["title"] == "one, two: comparison of runs");
  CHECK(found["runs"][1]["summary"]["seconds"] == 2.5);
  CHECK(found["runs"][0]["metrics"]["loss"] == json{3.5});  // the second line is being written
}

TEST_CASE("a comparison warns of different models, data, batches and machines", "[compare]") {
  const TemporaryFolder folder;
  const json flags{{"--data", "a.txt"}, {"--batch", 8}};
  const json others{{"--data", "b.txt"}, {"--batch", 4}};
  const json model{{"config", {{"flags", others}, {"model", {{"width", 128}}}}},
                   {"machine", {{"processor", "another"}}}};
  const json found = compare_runs(
      {write_run(folder.path / "one", flags), write_run(folder.path / "two", flags, model)});
  REQUIRE(found["warnings"].size() == 4);
  for (const auto& [place, word] :
       {std::pair(0, "models"), {1, "data"}, {2, "batches"}, {3, "machines"}})
    CHECK_THAT(found["warnings"][place].get<std::string>(),
               Contains(std::string("different ") + word));
}

TEST_CASE("runs of one name are told apart by their folders", "[compare]") {
  const TemporaryFolder folder;
  const auto one = write_run(folder.path / "a/run", json::object()),
             two = write_run(folder.path / "b/run", json::object());
  CHECK(compare_runs({one, two})["runs"][1]["name"] == two.string());
}

TEST_CASE("a folder without a run's summary is refused, with what it lacks", "[compare]") {
  const TemporaryFolder folder;
  const auto run = write_run(folder.path / "run", json::object());
  CHECK_THROWS_WITH(compare_runs({run}), Contains("two or more"));
  CHECK_THROWS_WITH(compare_runs({run, folder.path / "none"}), Contains("is not there"));
  std::filesystem::create_directories(folder.path / "empty");
  CHECK_THROWS_WITH(compare_runs({run, folder.path / "empty"}), Contains("holds no summary.json"));
  for (const char* text :
       {"{\"parts\": []}", "{\"config\": ", R"({"config": {"flags": null}, "seconds": 1})"}) {
    nn::write_file(folder.path / "empty/summary.json", text);
    CHECK_THROWS_WITH(compare_runs({run, folder.path / "empty"}),
                      Contains("is not a run's summary"));
  }
}

TEST_CASE("a summary whose values are of other types is refused", "[compare]") {
  const TemporaryFolder folder;
  const auto run = write_run(folder.path / "run", json::object());
  for (const char* other :
       {R"({"seconds": "x"})", R"({"machine": "y"})", R"({"loss": "str"})", R"({"state": 5})",
        R"({"images_per_second": "1"})", R"({"peak_bytes": [{"total": "5"}]})",
        R"({"peak_bytes": {"total": 5}})", R"({"bubble": {"measured": []}})",
        R"({"breakdown": {"measured": {"ranks": [{"update": true}]}}})", R"({"date": {}})"}) {
    CAPTURE(other);
    const auto changed = write_run(folder.path / "other", json::object(), json::parse(other));
    CHECK_THROWS_WITH(compare_runs({run, changed}), Contains("is not a run's summary"));
  }
  const json own{{"loss", nullptr}, {"complete", true}, {"bubble", {{"measured", 0.5}}}};
  CHECK(compare_runs({run, write_run(folder.path / "other", json::object(), own)}).size() == 4);
}
