// The table of facts says which numbers are compared, and how they are written. Chapter 06.
#include "examples/programs/plan_compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <vector>

#include "autograd/error.h"
#include "examples/pages/plan_facts.h"
#include "parallel/schedules/schedule.h"

namespace plangrad::examples {
namespace {

using nlohmann::json;
using parallel::number_text, parallel::PlanFact;

/// The number at a place: the largest of a list, the sum of an object's values; none if it is not
/// there.
std::optional<double> number_at(const json& facts, const char* place) {
  const json::json_pointer pointer(place);
  if (!facts.contains(pointer)) return {};
  const json& found = facts.at(pointer);
  if (found.is_number()) return found.get<double>();
  double largest = 0, sum = 0;
  for (const json& each : found) {
    if (!each.is_number()) return {};
    largest = std::max(largest, each.get<double>());
    sum += each.get<double>();
  }
  return found.is_object() ? sum : largest;
}

/// Calls take(fact, value of a, value of b) for each number that both plans have.
template <class Take>
void for_each_number(const NamedFacts& a, const NamedFacts& b, Take&& take) {
  for (const PlanFact& fact : parallel::plan_facts()) {
    if (!fact.is_compared) continue;
    const auto of_a = number_at(a.facts, fact.place), of_b = number_at(b.facts, fact.place);
    if (of_a && of_b) take(fact, *of_a, *of_b);
  }
}

std::string difference_text(const PlanFact& fact, double a, double b) {
  if (a == b) return "";
  std::string line = (b > a ? "+" : "-") + number_text(std::abs(b - a), fact.unit);
  const bool is_share = fact.unit == parallel::Unit::share;
  if (a > 0 && !is_share) line += fmt::format(", x {:.3g}", b / a);
  return is_share ? line.substr(0, line.size() - 1) + " points" : line;
}

}  // namespace

NamedFacts side_of(const PlanRequest& request, const std::string& name) {
  PlanRequest one = request;
  const auto is_name = [&](const parallel::Schedule* each) { return each->name == name; };
  const bool is_schedule = std::ranges::any_of(parallel::schedules(), is_name);
  PG_CHECK(is_schedule || name == "-" || std::filesystem::exists(name), name,
           ": is neither a schedule nor a file with a plan",
           autograd::did_you_mean(name, parallel::schedule_names()));
  one.schedule.plan_file = "";
  one.schedule.schedule = is_schedule ? name : "";
  const parallel::VerifiedPlan verified =
      parallel::verify(is_schedule ? one.made() : read_plan(name));
  return {is_schedule ? one.schedule.title() : name,
          parallel::all_facts(
              verified, parallel::encoded(request.costs.costs, verified.plan(), "--weight-bytes"))};
}

std::string compared(const NamedFacts& a, const NamedFacts& b) {
  const std::size_t width = std::max({a.name.size(), b.name.size(), std::size_t{10}}) + 2;
  std::string all = fmt::format("{:<27}{:<{}}{:<{}}difference\n", "", a.name, width, b.name, width);
  for_each_number(a, b, [&](const PlanFact& fact, double of_a, double of_b) {
    std::string line =
        fmt::format("{:<27}{:<{}}{:<{}}{}", fact.name, number_text(of_a, fact.unit), width,
                    number_text(of_b, fact.unit), width, difference_text(fact, of_a, of_b));
    line.erase(line.find_last_not_of(' ') + 1);
    all += line + "\n";
  });
  return all;
}

json compared_json(const NamedFacts& a, const NamedFacts& b) {
  json difference = json::object();
  for_each_number(a, b, [&](const PlanFact& fact, double of_a, double of_b) {
    difference[fact.name] = of_b - of_a;
  });
  return {{"a", {{"name", a.name}, {"facts", a.facts}}},
          {"b", {{"name", b.name}, {"facts", b.facts}}},
          {"difference", difference}};
}

}  // namespace plangrad::examples
