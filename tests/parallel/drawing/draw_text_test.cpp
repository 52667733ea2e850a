// Timelines as text, to the letter; tables; and what no drawing accepts.
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/folders.h"
#include "tests/parallel/support/drawing.h"

using namespace plangrad::parallel;
using namespace plangrad::tests;
using nlohmann::json;

TEST_CASE("draw_text: GPipe, to the letter", "[draw]") {
  Costs twice;
  twice.backward = {2};
  Timeline timeline = simulated("gpipe", {.stages = 3, .microbatches = 2}, twice);
  CHECK(draw_text(timeline) ==
        "rank 0  0F0 0F1 ... ... ... ... ... ... 0B0 --- 0B1 ---\n"
        "rank 1  ... 1F0 1F1 ... ... ... 1B0 --- 1B1 --- ... ...\n"
        "rank 2  ... ... 2F0 2F1 2B0 --- 2B1 --- ... ... ... ...\n");
  CHECK(draw_text(timeline, 3) ==
        "rank 0  0F0 0F1 ...\n"
        "rank 1  ... 1F0 1F1\n"
        "rank 2  ... ... 2F0\n"
        "and 9 more columns, of 1 s each\n");
}

TEST_CASE("draw_text: the round dance", "[draw]") {
  auto drawn = [](const std::string& name) {
    std::ifstream file(clone_path("tests/parallel/plans/" + name + ".plan"));
    std::ostringstream text;
    text << file.rdbuf();
    return draw_text(simulate_unverified(parse(text.str()), {.backward = {1}}));
  };
  CHECK(drawn("cyclic_v2_data") ==
        "rank 0  0F0 1F0 2F0 2B0 1B0 0B0 0F3 1F3 2F3 2B3 1B3 0B3 ... ... ... ...\n"
        "rank 1  ... ... 0F1 1F1 2F1 2B1 1B1 0B1 0F4 1F4 2F4 2B4 1B4 0B4 ... ...\n"
        "rank 2  ... ... ... ... 0F2 1F2 2F2 2B2 1B2 0B2 0F5 1F5 2F5 2B5 1B5 0B5\n");
  CHECK(drawn("cyclic_v2_model") ==
        "rank 0  0F0 ... ... ... ... 0B0 0F3 ... ... ... ... 0B3 ... ... ... ...\n"
        "rank 1  0F1 ... ... ... ... ... ... 0B1 0F4 ... ... ... ... 0B4 ... ...\n"
        "rank 2  0F2 ... ... ... ... ... ... ... ... 0B2 0F5 ... ... ... ... 0B5\n"
        "rank 3  ... 1F0 ... ... 1B0 1F2 ... ... 1B2 1F4 ... ... 1B4 ... ... ...\n"
        "rank 4  ... 1F1 ... ... ... ... 1B1 1F3 ... ... 1B3 1F5 ... ... 1B5 ...\n"
        "rank 5  ... ... 2F0 2B0 2F1 2B1 2F2 2B2 2F3 2B3 2F4 2B4 2F5 2B5 ... ...\n");
}

TEST_CASE("draw_text: steps that take time, and ten ranks", "[draw]") {
  Costs slow_step{.backward = {1}};
  slow_step.step = {2};
  Timeline timeline = simulated("data", {.width = 11, .microbatches = 1}, slow_step);
  std::string text = draw_text(timeline);
  CHECK_THAT(text, StartsWith("rank 0   0F0  0B0  0S   ----\nrank 1   0F1  0B1  0S   ----\n"));
  CHECK_THAT(text, EndsWith("rank 10  0F10 0B10 0S   ----\n"));
}

TEST_CASE("draw: a timeline in which nothing takes time is refused", "[draw]") {
  CHECK_THROWS_WITH(draw_text({}), Contains("takes time") && Contains("0 records"));
  CHECK_THROWS_WITH(draw_svg({}), Contains("takes time"));
  Timeline outside{1, {{1, Lane::compute, parse_instruction("0F0v0"), 0, 1, 0}}};
  CHECK_THROWS_WITH(draw_svg(outside), Contains("0F0v0 of rank 1"));
  CHECK_THROWS_WITH(draw_text(two_by_two(), 0), Contains("at least 1 column"));
  CHECK(json::parse(draw_trace({}))["traceEvents"].empty());
}
