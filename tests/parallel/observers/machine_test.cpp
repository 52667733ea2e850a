// When ranks share cores, and what a report then says.
#include "parallel/observers/recording.h"

#include <nlohmann/json.hpp>

#include "tests/catch.h"

using namespace plangrad::parallel;

TEST_CASE("ranks share cores if a host has more of them than cores", "[machine]") {
  const RankCores both{"a", {0, 1}};
  CHECK(!shared_cores({}));
  CHECK(!shared_cores({both, both}));
  const auto shared = shared_cores({both, both, both});
  REQUIRE(shared);
  CHECK(shared->ranks == 3);
  CHECK(shared->cores == 2);
  CHECK(!shared_cores({{"a", {0}}, {"a", {1}}, {"a", {2}}}));  // each is bound to one
  CHECK(shared_cores({{"a", {5}}, {"a", {5}}})->cores == 1);
  CHECK(!shared_cores({{"a", {0}}, {"b", {0}}}));
  CHECK(!shared_cores({{"a", {}}, {"a", {}}}));  // unknown
}

TEST_CASE("the host with the most ranks for each core is named", "[machine]") {
  std::vector<RankCores> ranks(3, {"a", {0, 1}});
  ranks.insert(ranks.end(), 2, {"b", {0}});
  for (int turn = 0; turn < 2; ++turn) {
    CHECK(shared_cores(ranks)->ranks == 2);
    CHECK(shared_cores(ranks)->cores == 1);
    for (RankCores& rank : ranks) rank.host = rank.host == "a" ? "c" : "b";  // after b
  }
}

TEST_CASE("this thread may use some cores, each named once", "[machine]") {
  const RankCores here = cores_here();
  REQUIRE(!here.cores.empty());
  for (std::size_t i = 1; i < here.cores.size(); ++i) CHECK(here.cores[i - 1] < here.cores[i]);
}

TEST_CASE("two lines say of which updates ranks are idle, and how long cores are too few",
          "[machine]") {
  nlohmann::json summary{
      {"recorded_updates", {1001, 1004}},
      {"bubble", {{"measured", 0.47}, {"own_cores", 0.265}, {"without_core", 0.17}}},
      {"update_seconds", {{"measured", 0.0156}, {"own_cores", 0.00877}}}};
  const std::vector<std::string> lines = about_times({4, 2}, summary);
  REQUIRE(lines.size() == 2);
  CHECK(lines[0] ==
        "ranks idle in updates 1001 to 1004: 47.0% measured (15.6 ms an update), "
        "26.5% simulated with a core for each rank (8.77 ms)");
  CHECK(lines[1] ==
        "4 ranks on 2 cores can be busy for at most 50% of the time; for another "
        "17.0% a rank that computes has no core");
  summary["recorded_updates"] = {2, 2};
  CHECK(about_times({3, 1}, summary)[0].starts_with("ranks idle in update 2: "));
  CHECK(about_times({3, 1}, summary)[1].starts_with("3 ranks on 1 core can be busy for at most "));
}

TEST_CASE("the machine has cores over all hosts, and the command is one that a shell takes",
          "[machine]") {
  const nlohmann::json machine = machine_json({{"a", {0, 1}}, {"a", {1, 2}}, {"b", {0}}});
  CHECK(machine["host"] == "a");
  CHECK(machine["hosts"] == 2);
  CHECK(machine["cores"] == 4);
  CHECK(machine["processor"] == processor_name());
  CHECK_THAT(command_line(), Contains("tests_parallel"));
}
