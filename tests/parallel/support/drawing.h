// What tests of drawings share: timelines to draw, and checks of markup.
// Not here: what a drawing must show (drawing/*_test.cpp).
#pragma once

#include "parallel/drawing/draw.h"
#include "parallel/schedules/schedule.h"
#include "parallel/simulation/simulate.h"
#include "tests/catch.h"

namespace plangrad::tests {

using namespace parallel;

inline Timeline simulated(const std::string& schedule, const Layout& layout,
                          const Costs& costs = {.backward = {1}}) {
  return simulate_unverified(make_plan(schedule, layout), costs);
}

/// Backward twice as long as forward, messages and steps that take time.
inline Costs costs() {
  Costs costs;
  costs.backward = {2};
  costs.step = {0.5};
  costs.latency = 0.125;
  costs.bandwidth = 1e6;
  costs.activation_bytes = {125000};
  costs.weight_bytes = {1000000};
  return costs;
}

inline Timeline two_by_two() {
  return simulated("2bw", {.stages = 2, .width = 2, .microbatches = 3, .steps = 3}, costs());
}

inline std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
  return found;
}

/// Checks that tags nest, that attributes are quoted, and that & begins an entity.
inline void check_markup(const std::string& text) {
  std::vector<std::string> open;
  for (std::size_t at = 0; (at = text.find('<', at)) != text.npos;) {
    std::size_t end = text.find('>', at);
    REQUIRE(end < text.find('<', at + 1));
    std::string tag = text.substr(at + 1, end - at - 1), name = tag.substr(0, tag.find(' '));
    CHECK(count(tag, "\"") == 2 * count(tag, "=\""));
    CHECK(count(tag, "=") == count(tag, "=\""));
    if (tag[0] == '/') {
      REQUIRE(!open.empty());
      REQUIRE(open.back() == tag.substr(1));
      open.pop_back();
    } else if (tag.back() != '/') {
      open.push_back(name);
    }
    at = end + 1;
    REQUIRE(text.find('>', at) >= text.find('<', at));
  }
  CHECK(open.empty());
  std::size_t entities = 0;
  for (const char* entity : {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"})
    entities += count(text, entity);
  CHECK(count(text, "&") == entities);
}

}  // namespace plangrad::tests
