// Keys of a request. Chapter 06.
#include "examples/pages/player/request.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "autograd/error.h"
#include "examples/pages/player/ideas.h"
#include "parallel/schedules/schedule.h"

namespace plangrad::parallel {
namespace {

using Json = nlohmann::json;
using autograd::text;

int whole(const std::string& key, const Json& value, int least) {
  PG_CHECK(value.is_number_integer() && value >= least && value <= 1'000'000'000, key,
           ": expected a whole number from ", least, " on, got ", value.dump());
  return value.get<int>();
}

bool yes(const std::string& key, const Json& value) {
  PG_CHECK(value.is_boolean(), key, ": expected true or false, got ", value.dump());
  return value.get<bool>();
}

std::string words(const std::string& key, const Json& value) {
  PG_CHECK(value.is_string(), key, ": expected text, got ", value.dump());
  return value.get<std::string>();
}

double positive(const std::string& key, const Json& value) {
  PG_CHECK(value.is_number() && value >= 0 && value <= 1e30, key,
           ": expected a number from 0 on, got ", value.dump());
  return value.get<double>();
}

template <class T>
std::vector<T> numbers(const std::string& key, const Json& value) {
  const Json all = value.is_array() ? value : Json::array({value});
  PG_CHECK(!all.empty() && all.size() < 1 << 20, key, ": expected a number, or a list of them");
  std::vector<T> result;
  for (const Json& each : all) {
    const double number = positive(key, each);
    PG_CHECK(number <= 1e15, key, ": expected numbers up to 1e15, got ", each.dump());
    result.push_back(static_cast<T>(number));
  }
  return result;
}

void read_costs(const Json& json, Costs& costs) {
  PG_CHECK(json.is_object(), "costs: expected an object, got ", json.dump());
  for (const auto& [key, value] : json.items()) {
    if (value.is_null()) continue;
    if (key == "forward")
      costs.forward = numbers<double>(key, value);
    else if (key == "backward")
      costs.backward = numbers<double>(key, value);
    else if (key == "input_part")
      costs.input_part = numbers<double>(key, value);
    else if (key == "weight_part")
      costs.weight_part = numbers<double>(key, value);
    else if (key == "step")
      costs.step = numbers<double>(key, value);
    else if (key == "slowness")
      costs.slowness = numbers<double>(key, value);
    else if (key == "activation_bytes")
      costs.activation_bytes = numbers<std::int64_t>(key, value);
    else if (key == "weight_bytes")
      costs.weight_bytes = numbers<std::int64_t>(key, value);
    else if (key == "latency")
      costs.latency = positive(key, value);
    else if (key == "bandwidth")
      costs.bandwidth = std::max(1e-30, positive(key, value));
    else
      throw autograd::Error(text("costs: there is no \"", key, "\"; there are forward, backward, ",
                                 "input_part, weight_part, step, latency, bandwidth, ",
                                 "activation_bytes, weight_bytes, slowness"));
  }
}

/// The flag of a schedule by a request's key: "in_flight" is --in-flight. Null: no schedule has it.
const ScheduleFlag* flag_of(std::string key) {
  std::ranges::replace(key, '_', '-');
  for (const ScheduleFlag* flag : schedule_flags())
    if (flag->name == "--" + key) return flag;
  return nullptr;
}

/// Sets a flag that the schedule has. throws: Error if it takes no such value
void set_flag(const Schedule& schedule, const ScheduleFlag& flag, const Json& value,
              Layout& layout) {
  PG_CHECK(schedule.has(flag), flag.name, ": the schedule ", schedule.name, " has no ", flag.thing,
           "; leave it out");
  if (flag.is_list) return flag.set(layout, words(flag.name, value));
  if (flag.values.empty()) return flag.set(layout, std::to_string(whole(flag.name, value, 1)));
  const std::string chosen = words(flag.name, value);
  PG_CHECK(std::ranges::count(flag.values, chosen) == 1, flag.name, ": there is no \"", chosen,
           "\"");
  flag.set(layout, chosen);
}

bool read_size(const std::string& key, const Json& value, Layout& layout) {
  if (key == "stages")
    layout.stages = whole(key, value, 1);
  else if (key == "data_parallel")
    layout.width = whole(key, value, 1);
  else if (key == "microbatches")
    layout.microbatches = whole(key, value, 1);
  else if (key == "steps")
    layout.steps = whole(key, value, 1);
  else if (key == "first")
    layout.first = whole(key, value, 0);
  else if (key == "zero")
    layout.zero = whole(key, value, 0);
  else if (key == "recompute")
    layout.recompute = yes(key, value);
  else if (key == "clip")
    layout.clip = yes(key, value);
  else if (key == "tied")
    layout.tied = yes(key, value);
  else if (key == "codec")
    layout.codec = parse_codec(words(key, value));
  else if (key == "channel")
    layout.channel = parse_codec(words(key, value));
  else
    return false;
  return true;
}

void read_schedule(const Json& json, PlayerRequest& request) {
  const Schedule& schedule = find_schedule(request.schedule);
  Layout& layout = request.layout;
  layout.steps = schedule.cyclic ? 8 : 1;
  for (const auto& [key, value] : json.items()) {
    if (key == "schedule" || key == "title" || key == "costs" || key == "slow_rank" ||
        key == "slow_factor")
      continue;
    if (key == "endless") {
      request.endless = yes(key, value);
    } else if (!read_size(key, value, layout)) {
      const ScheduleFlag* flag = flag_of(key);
      PG_CHECK(flag, "there is no \"", key, "\" to choose for a schedule");
      set_flag(schedule, *flag, value, layout);
    }
  }
  if (schedule.cyclic) layout.microbatches = layout.stages;
}

}  // namespace

PlayerRequest read_request(const Json& json) {
  PG_CHECK(json.is_object(), "a request is an object, with a \"plan\" or a \"schedule\"");
  PlayerRequest request;
  if (json.contains("costs")) read_costs(json["costs"], request.costs);
  if (json.contains("slow_rank")) request.slow_rank = whole("slow_rank", json["slow_rank"], 0);
  if (json.contains("slow_factor"))
    request.slow_factor = positive("slow_factor", json["slow_factor"]);
  if (json.contains("title")) request.title = words("title", json["title"]);
  if (json.contains("plan")) {
    PG_CHECK(!json.contains("schedule"), "give a \"plan\" or a \"schedule\", not both");
    request.text = words("plan", json["plan"]);
    return request;
  }
  PG_CHECK(json.contains("schedule"), "a request needs a \"plan\" or a \"schedule\"");
  request.schedule = words("schedule", json["schedule"]);
  read_schedule(json, request);
  return request;
}

Costs PlayerRequest::costs_of(const Plan& plan) const {
  Costs result = encoded(costs, plan);
  if (slow_rank < 0 || slow_rank >= plan.ranks()) return result;
  if (result.slowness.size() == 1) result.slowness.resize(plan.ranks(), result.slowness[0]);
  if (slow_rank < static_cast<int>(result.slowness.size()))
    result.slowness[slow_rank] *= slow_factor;
  return result;
}

Plan plan_of(const PlayerRequest& request) {
  if (!request.endless) return make_plan(request.schedule, request.layout);
  const Schedule& schedule = find_schedule(request.schedule);
  PG_CHECK(schedule.has_order, "endless: the order of the schedule ", request.schedule,
           " depends on timing, so no part of it repeats");
  std::optional<Plan> found = make_endless(request.schedule, request.layout);
  PG_CHECK(found, "endless: the rows of ", request.schedule, " with ", request.layout.stages,
           " stages do not repeat within 12 updates; use fewer stages");
  return *std::move(found);
}

Json list_of_schedules() {
  Json all = Json::array();
  for (const Schedule* each : schedules()) {
    Json flags = Json::array();
    for (const ScheduleFlag* flag : schedule_flags())
      if (each->has(*flag))
        flags.push_back({{"name", std::string(flag->name).substr(2)},
                         {"what", flag->what},
                         {"is_list", flag->is_list},
                         {"values", flag->values}});
    const Idea* idea = find_idea(each->name);
    all.push_back({{"name", each->name},
                   {"idea", idea ? idea->sentence : ""},
                   {"paper", idea ? idea->paper : ""},
                   {"cyclic", each->cyclic},
                   {"chunks", each->chunks},
                   {"has_order", each->has_order},
                   {"overlaps", each->why_no_clip != nullptr},
                   {"zero", each->highest_zero},
                   {"flags", flags}});
  }
  return all;
}

}  // namespace plangrad::parallel
