// What ranks tell each other between plans arrives as it was sent: orders, results, memory.
#include "parallel/session/session_rank.h"

#include "tests/catch.h"

using namespace plangrad::parallel;

namespace {

using Events = std::vector<MemoryMeter::Event>;

template <class T>
T there_and_back(const T& value) {
  return unpack<T>(pack(value));
}

std::int64_t peak(const Events& events, Category category) {
  std::int64_t peak = 0;
  for (const MemoryMeter::Event& event : events)
    if (event.category == category) peak = std::max(peak, event.live);
  return peak;
}

RunResult some_result() {
  RunResult result;
  result.losses = {{3, 0.1}, {4, -0.0}};
  result.accuracies = {{3, 1}};
  result.squares = {{1, {1e-300, 2}}, {2, {}}};
  result.norms = {{1, std::numeric_limits<double>::infinity()}};
  result.stepped = {{1, 0.25}};
  result.bytes_sent = {{"activations", std::int64_t(1) << 40}, {"", 0}};
  result.order = {2, 0, 1};
  result.bit_options = {{"wte", {{7, 0.5}, {9, std::nan("")}}}, {"none", {}}};
  result.records = {{1, Lane::message, parse_instruction("2a5>3"), 0.5, 0.75, 12}};
  return result;
}

}  // namespace

TEST_CASE("exchange: values arrive as they were packed") {
  CHECK(there_and_back(7) == 7);
  CHECK(there_and_back(std::string("a\0b", 3)) == std::string("a\0b", 3));
  CHECK(there_and_back(std::string()).empty());
  const std::vector<std::string> words{"", "one", "two"};
  CHECK(there_and_back(words) == words);
  const std::map<std::string, std::pair<int, double>> map{{"x", {1, 0.1}}, {"y", {2, 1e-320}}};
  CHECK(there_and_back(map) == map);
  for (const std::variant<int, std::string>& value :
       {std::variant<int, std::string>(3), std::variant<int, std::string>("three")})
    CHECK(there_and_back(value) == value);
}

TEST_CASE("exchange: bytes that are not those of the type are an error") {
  const std::string bytes = pack(std::vector<int>{1, 2, 3});
  CHECK_THROWS_WITH(unpack<std::vector<int>>(bytes.substr(0, bytes.size() - 1)),
                    Contains("ends too early"));
  CHECK_THROWS_WITH(unpack<std::vector<int>>(bytes + "x"), Contains("1 bytes more than expected"));
  CHECK_THROWS_WITH(unpack<std::string>(pack(std::int64_t(1) << 60)), Contains("ends too early"));
  CHECK_THROWS_WITH((unpack<std::variant<int, std::string>>(pack(std::int64_t(2)))),
                    Contains("no such alternative"));
}

TEST_CASE("exchange: an order arrives as it was given") {
  const auto train = std::get<Train>(there_and_back(Order(Train{40, true})));
  CHECK(train.steps == 40);
  CHECK(train.recorded);
  CHECK(std::get<Ask>(there_and_back(Order(Ask{"a", "b"}))).question == "b");
  const Bits bits{{"wte", 3}, {"wpe", 8}};
  CHECK(there_and_back(bits) == bits);
  for (const Order& order : {Order(Ask()), Order(Save()), Order(FinishFiles()), Order(End())})
    CHECK(there_and_back(order).index() == order.index());
}

TEST_CASE("exchange: a rank's result arrives as it is") {
  const RunResult sent = some_result(), got = there_and_back(sent);
  CHECK(got.losses == sent.losses);
  CHECK(std::signbit(got.losses.at(4)));
  CHECK(got.accuracies == sent.accuracies);
  CHECK(got.squares == sent.squares);
  CHECK(got.norms == sent.norms);
  CHECK(got.stepped == sent.stepped);
  CHECK(got.bytes_sent == sent.bytes_sent);
  CHECK(got.order == sent.order);
  REQUIRE(got.bit_options.at("wte").size() == 2);
  CHECK(got.bit_options.at("wte")[0] == sent.bit_options.at("wte")[0]);
  CHECK(got.bit_options.at("wte")[1].bytes == 9);
  CHECK(std::isnan(got.bit_options.at("wte")[1].error));
  CHECK(got.bit_options.at("none").empty());
  REQUIRE(got.records.size() == 1);
  CHECK(got.records[0].rank == 1);
  CHECK(got.records[0].lane == Lane::message);
  CHECK(print(got.records[0].instruction) == "2a5>3");
  CHECK(got.records[0].start == 0.5);
  CHECK(got.records[0].end == 0.75);
  CHECK(got.records[0].bytes == 12);
}

TEST_CASE("exchange: a world's result is that of all ranks") {
  RunResult first = some_result(), second;
  second.losses = {{5, 7}};
  second.stepped = {{1, 0.5}};
  second.bytes_sent = {{"activations", 1}};
  second.records = first.records;
  const RunResult world = merged({first, second});
  CHECK(world.losses == std::map<int, double>{{3, 0.1}, {4, 0}, {5, 7}});
  CHECK(world.stepped == std::map<int, double>{{1, 0.5}});
  CHECK(world.bytes_sent.at("activations") == (std::int64_t(1) << 40) + 1);
  CHECK(world.records.size() == 2);
}

TEST_CASE("exchange: a few events of memory arrive as they are") {
  const Events events = {{0, Category::weights, 7}, {0.5, Category::activations, 30}};
  const Events got = there_and_back(outstanding(events));
  REQUIRE(got.size() == 2);
  CHECK(got[1].seconds == 0.5);
  CHECK(got[1].category == Category::activations);
  CHECK(got[1].live == 30);
  CHECK(there_and_back(outstanding({})).empty());
}

TEST_CASE("exchange: of many events of memory the beginning, the peaks and the end arrive") {
  Events events;
  for (int i = 0; i < category_count; ++i)
    events.push_back({0, static_cast<Category>(i), 1000 + i});
  for (int i = 1; i <= 100000; ++i) {
    events.push_back({i * 1e-3, Category::activations, i % 7});
    events.push_back({i * 1e-3, Category::workspace, 0});
  }
  events[77777].category = Category::activations;
  events[77777].live = 900;
  const Events samples = outstanding(events);
  CHECK(samples.size() <= 4 * 1001 + 6);
  CHECK(std::count_if(samples.begin(), samples.end(),
                      [](const MemoryMeter::Event& x) { return x.live == 900; }) == 1);
  CHECK(peak(samples, Category::workspace) == 1005);
  CHECK(samples[category_count - 1].live == 1000 + category_count - 1);
  CHECK(samples.back().seconds == 100);
  CHECK(std::is_sorted(samples.begin(), samples.end(),
                       [](const auto& a, const auto& b) { return a.seconds < b.seconds; }));
}
