// The program that shows the library on one page: its losses fall, and are those of one rank.

#include "tests/examples/programs.h"

using namespace plangrad::tests;

TEST_CASE("pipeline: four ranks learn what one does, the same each time") {
  const Finished first = run({"pipeline"});
  CHECK(first.errors.empty());
  REQUIRE(first.status == 0);
  CHECK_THAT(first.output, Contains("verified") && Contains("all losses have the same bits"));
  CHECK(run({"pipeline"}).output == first.output);

  std::istringstream lines(first.output);
  std::vector<double> losses;
  for (std::string line; std::getline(lines, line);) {
    int update = 0;
    double four = 0, one = 0;
    if (!(std::istringstream(line) >> update >> four >> one)) continue;
    CHECK(update == static_cast<int>(losses.size()) + 1);
    CHECK(four == one);
    losses.push_back(four);
  }
  REQUIRE(losses.size() == 20);
  CHECK(losses.back() < 0.7 * losses.front());
}
