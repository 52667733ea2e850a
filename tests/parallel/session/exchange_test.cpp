// What ranks tell rank 0 of their memory.
#include "parallel/session/exchange.h"

#include <algorithm>

#include "tests/catch.h"

using namespace paragrad::parallel;

namespace {

using Events = std::vector<MemoryMeter::Event>;

std::int64_t peak(const std::vector<MemorySample>& samples, const std::string& category) {
  std::int64_t peak = 0;
  for (const MemorySample& sample : samples)
    if (sample.category == category) peak = std::max(peak, sample.bytes);
  return peak;
}

}  // namespace

TEST_CASE("a few events of memory arrive as they are") {
  Events events = {{0, Category::weights, 7}, {0.5, Category::activations, 30}};
  std::vector<MemorySample> samples = memory_samples(3, to_json(events));
  REQUIRE(samples.size() == 2);
  CHECK(samples[1].rank == 3);
  CHECK(samples[1].seconds == 0.5);
  CHECK(samples[1].category == "activations");
  CHECK(samples[1].bytes == 30);
  CHECK(memory_samples(0, to_json(Events())).empty());
}

TEST_CASE("of many events of memory the beginning, the peaks and the end arrive") {
  Events events;
  for (int i = 0; i < category_count; ++i)
    events.push_back({0, static_cast<Category>(i), 1000 + i});
  for (int i = 1; i <= 100000; ++i) {
    events.push_back({i * 1e-3, Category::activations, i % 7});
    events.push_back({i * 1e-3, Category::workspace, 0});
  }
  events[77777].category = Category::activations;
  events[77777].live = 900;
  std::vector<MemorySample> samples = memory_samples(0, to_json(events));
  CHECK(samples.size() <= 4 * 1001 + 6);
  CHECK(std::count_if(samples.begin(), samples.end(),
                      [](const MemorySample& x) { return x.bytes == 900; }) == 1);
  CHECK(peak(samples, "workspace") == 1005);
  CHECK(samples[category_count - 1].bytes == 1000 + category_count - 1);
  CHECK(samples.back().seconds == 100);
  CHECK(std::is_sorted(samples.begin(), samples.end(),
                       [](const auto& a, const auto& b) { return a.seconds < b.seconds; }));
}
