// Layouts for the ranks that are left, and words of commands. Not here: runs
// (elastic_runs_test.cpp).
#include "examples/elastic/elastic.h"
#include "tests/catch.h"

using namespace plangrad::examples;
using nlohmann::json;

namespace {

json layout(int stages, int width, int microbatches, int batch) {
  return {{"--schedule", "1f1b"},
          {"--stages", stages},
          {"--data-parallel", width},
          {"--microbatches", microbatches},
          {"--batch", batch}};
}

/// Stages, replicas and microbatches of each layout.
std::vector<std::vector<int>> found(int ranks, const json& flags) {
  std::vector<std::vector<int>> result;
  for (const auto& each : layouts_for(ranks, flags))
    result.push_back({each.layout.stages, each.layout.width, each.layout.microbatches});
  return result;
}

}  // namespace

TEST_CASE("replicas go before stages, and an update keeps its batch and microbatches") {
  CHECK(found(7, layout(2, 4, 3, 24)) ==
        std::vector<std::vector<int>>{{2, 3, 4}, {2, 2, 6}, {2, 1, 12}, {1, 1, 12}});
  CHECK(found(3, layout(4, 1, 8, 16)) ==
        std::vector<std::vector<int>>{{3, 1, 8}, {2, 1, 8}, {1, 1, 8}});
  // Three replicas of a batch of 8: none has a whole number of sequences. Two have.
  CHECK(found(3, layout(1, 4, 1, 8)).at(1) == std::vector<int>{1, 2, 2});
}

TEST_CASE("one replica has no ZeRO, and its sums are encoded where stages may share a tensor") {
  json flags = layout(2, 2, 1, 8);
  flags.update({{"--zero", 1}, {"--codec", "bf16"}, {"--codec-channel", "topk:0.1"}});
  std::string all;
  for (const auto& each : layouts_for(3, flags))
    all += print(each.layout.codec) + ' ' + print(each.layout.channel) + ", ";
  CHECK(all == "bf16 topk:0.1, none topk:0.1, none none, ");
}

TEST_CASE("cuts by hand stay with as many stages") {
  json flags = layout(3, 2, 3, 24);
  flags["--cuts"] = {1, 2.5};
  for (const auto& each : layouts_for(5, flags)) {
    CHECK(each.layout.cuts.size() == (each.layout.stages == 3 ? 2 : 0));
    Words words{"--steps", "9", "--clip", "0", "--recompute", "--cuts", "1,2.5", "--stages=3"};
    set_layout(words, each);
    CHECK(words.at(4) == "--schedule=1f1b");  // behind --steps and --clip
    CHECK(value_of(words, "--cuts") == (each.layout.stages == 3 ? "1,2.5" : ""));
  }
}

TEST_CASE("losses are parsed and printed, and flags are taken out of commands") {
  for (const std::string words : {"2@8", "2@8,0@12-20", "0@1-1"})
    CHECK(print(parse_losses(words)) == words);
  for (const std::string words : {"2", "2@", "@3", "2@8-7", "-1@3", "2@3x", "2@0"})
    CHECK_THROWS_WITH(parse_losses(words), Contains("expected RANK@UPDATE"));
  Words words{"--a", "1", "--out", "x", "--out=y", "--outer=z", "--out"};
  remove_flag(words, "--out");
  CHECK(words == Words{"--a", "1", "--outer=z"});
}
