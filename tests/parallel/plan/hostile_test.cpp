// Plans whose numbers nobody means: they are refused, and nothing overflows.
#include "parallel/drawing/draw.h"
#include "parallel/simulation/variants.h"
#include "tests/catch.h"

namespace plangrad::tests {

using namespace parallel;

TEST_CASE("lists of a plan's header hold at least a number", "[plan]") {
  for (const char* entry : {"keep ,", "keep ,,", "home ,", "tied ,", "groups /", "groups 0/,"})
    CHECK_THROWS_WITH(parse(std::string("stages 1 per_step 1 steps 1 ") + entry + "\n0F0v0\n"),
                      Contains("expected numbers, got "));
}

TEST_CASE("numbers that would overflow are refused by whoever draws a wrong plan", "[plan]") {
  const std::string rows = " 0B0v0 0Sv2147483647\n";
  const Plan late = parse("stages 1 per_step 3 steps 1\n0F0v0" + rows);
  CHECK_THROWS_WITH(simulate_two_bodies(late, Costs()),
                    Contains("version 2147483647 does not exist"));
  const Plan version = parse("stages 1 per_step 2 steps 1\n0F0v0 0F1v2147483647 0B1v0" + rows);
  CHECK_THROWS_WITH(simulate_two_bodies(version, Costs()),
                    Contains("version 2147483647 does not exist"));
  const Plan endless = parse(
      "stages 1 per_step 1 steps 1 first 99999999 period 99999999\n"
      "0F0v2147483647 | | 0B0v0 0Sv2147483647\n");
  CHECK_THROWS_WITH(simulate_two_bodies(endless, Costs()), Contains("a period is 1 to 1 step,"));
}

TEST_CASE("sums of very many ranks are refused before each sends to each", "[plan]") {
  const auto sum_of = [](int ranks) {
    std::string members, rows;
    for (int rank = 0; rank < ranks; ++rank) {
      const std::string number = std::to_string(rank);
      members += (rank > 0 ? "," : "") + number;
      rows += "0F" + number + "v0 0B" + number + "v0 0Rv1@0 0Sv1\n";
    }
    return "stages 1 per_step " + std::to_string(ranks) + " steps 1 groups " + members + "\n" +
           rows;
  };
  CHECK(parse(sum_of(1000)).ranks() == 1000);
  CHECK_THROWS_WITH(parse(sum_of(4000)), Contains("2097152 cells, and messages of sums"));
}

TEST_CASE("plans late in a run that read its first versions are refused in no time", "[plan]") {
  const std::string rest = " period 1\n0F99999999v0 | 0B99999999v0 0Sv100000000 | 0F99999999v0\n";
  const std::string head = "stages 1 per_step 1 steps 1 first 99999999 keep ";
  CHECK_THROWS_AS(verify(parse(head + "2" + rest)), PlanError);
  CHECK_THROWS_WITH(verify(parse(head + "99999999" + rest)), Contains("keep is at most 4096"));
}

}  // namespace plangrad::tests
