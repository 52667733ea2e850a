// Parses costs, which are lists separated by commas.
// Chapter 06.
#include "examples/programs/cost_flags.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <vector>

#include "examples/programs/program.h"

namespace plangrad::examples {
namespace {

/// Adds a flag for numbers separated by commas, as in "1,2.5". If it is given twice, the last wins.
template <class T>
void add_list(CLI::App& app, const char* name, std::vector<T>& list, const char* what,
              const char* default_text = "") {
  auto parse = [name, &list](const std::string& value) {
    constexpr T highest = 1'000'000'000'000'000;
    list.clear();
    for (std::size_t begin = 0, end; begin <= value.size(); begin = end + 1) {
      end = std::min(value.find(',', begin), value.size());
      std::string word = value.substr(begin, end - begin);
      std::string problem = problem_of_number<T>(word, 0, highest);
      PG_CHECK(problem.empty(), name, ": ", problem);
      T number = 0;
      std::from_chars(word.data(), word.data() + word.size(), number);
      list.push_back(number);
    }
  };
  app.add_option_function<std::string>(name, parse, what)
      ->type_name("X,X,...")
      ->default_str(list.empty() ? default_text : text(list[0]));
}

}  // namespace

void CostFlags::add_flags(CLI::App& app) {
  constexpr double tiny = 1e-30, large = 1e30;
  Flags flags(app);
  flags.group("Costs (a list has one value, or one per stage; --slowness has one per rank)");
  add_list(app, "--forward", costs.forward, "seconds per forward of a microbatch");
  add_list(app, "--backward", costs.backward, "seconds per backward of a microbatch");
  add_list(app, "--input-part", costs.input_part, "seconds per input part, I, of a split backward",
           "half of --backward");
  add_list(app, "--weight-part", costs.weight_part,
           "seconds per weight part, W, of a split backward", "half of --backward");
  add_list(app, "--step", costs.step, "seconds per update");
  add_list(app, "--activation-bytes", costs.activation_bytes,
           "bytes of a stage's output per microbatch");
  add_list(app, "--weight-bytes", costs.weight_bytes, "bytes of a stage's weights, or gradient");
  add_list(app, "--slowness", costs.slowness, "how many times longer a rank computes");
  flags.number("--bandwidth", costs.bandwidth, tiny, large, "bytes per second of every link")
      ->default_str("unlimited");
  flags.number("--latency", costs.latency, 0, large, "seconds added to every message");
}

parallel::Costs CostFlags::of(const parallel::Plan& plan) const {
  auto is_part = [](const parallel::Instruction& x) {
    return x.what == parallel::Value::input_part;
  };
  const bool splits = std::ranges::any_of(
      plan.rows, [&](const parallel::Row& row) { return std::ranges::any_of(row, is_part); });
  PG_CHECK(splits || (costs.input_part.empty() && costs.weight_part.empty()),
           "--input-part and --weight-part are times of split backwards, which this plan does not "
           "have; give --backward, or a schedule like zb-h1");
  return parallel::encoded(costs, plan, "--weight-bytes");
}

}  // namespace plangrad::examples
