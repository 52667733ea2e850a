// The table of a breakdown. Not here: how the time is divided
// (tests/parallel/simulation/breakdown_test.cpp).
#include "examples/pages/breakdown_words.h"

#include <nlohmann/json.hpp>

#include "tests/catch.h"

using namespace plangrad::examples;
using namespace plangrad::parallel;

TEST_CASE("a breakdown's table has seconds and shares, in columns", "[draw]") {
  const TimeParts parts{2, 0.5, 1.25, 0.25e-3, 1e-12};
  CHECK(breakdown_table({3.75, {parts, {}}}) ==
        "             compute      update          waiting         point-to-point     collectives\n"
        "rank 0       2 s (53.3%)  500 ms (13.3%)  1.25 s (33.3%)  250 µs (0.00667%)  0\n"
        "rank 1       0            0               0               0                  0\n"
        "all 2 ranks  2 s (53.3%)  500 ms (13.3%)  1.25 s (33.3%)  250 µs (0.00667%)  0\n");
  CHECK_THAT(breakdown_table({3.75, {parts}}), Contains("\n1 rank  2 s (53.3%)"));
  auto lines = [](const std::string& text) { return std::count(text.begin(), text.end(), '\n'); };
  Breakdown time{1, std::vector<TimeParts>(16, parts)};
  CHECK(lines(breakdown_table(time)) == 18);
  time.ranks.push_back(parts);
  CHECK(lines(breakdown_table(time)) == 2);
  CHECK(to_json(time)["ranks"].size() == 17);
}
