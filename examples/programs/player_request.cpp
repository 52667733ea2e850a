// Flags and costs under the names of a request; what is usual is left out. Chapter 06.
#include "examples/programs/player_request.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

namespace plangrad::examples {
namespace {

using Json = nlohmann::json;

Json costs_json(const parallel::Costs& costs) {
  const parallel::Costs usual;
  Json json = Json::object();
  auto add = [&json](const char* name, const auto& value, const auto& otherwise) {
    if (value != otherwise) json[name] = value;
  };
  add("forward", costs.forward, usual.forward);
  add("backward", costs.backward, usual.backward);
  add("input_part", costs.input_part, usual.input_part);
  add("weight_part", costs.weight_part, usual.weight_part);
  add("step", costs.step, usual.step);
  add("activation_bytes", costs.activation_bytes, usual.activation_bytes);
  add("weight_bytes", costs.weight_bytes, usual.weight_bytes);
  add("slowness", costs.slowness, usual.slowness);
  add("latency", costs.latency, usual.latency);
  if (std::isfinite(costs.bandwidth)) json["bandwidth"] = costs.bandwidth;
  return json;
}

/// The flags that only some schedules have, as they were given.
void add_own_flags(const ScheduleFlags& flags, Json& json) {
  for (const parallel::ScheduleFlag* flag : parallel::schedule_flags()) {
    if (!flags.gives(flag->name)) continue;
    std::string key = std::string(flag->name).substr(2);
    std::ranges::replace(key, '-', '_');
    const std::string& value = flags.own.at(flag->name);
    if (flag->values.empty() && !flag->is_list)
      json[key] = std::stoi(value);
    else
      json[key] = value;
  }
}

}  // namespace

Json player_request(const ScheduleFlags& flags, const parallel::Layout& layout, bool endless,
                    const parallel::Plan& plan, const parallel::Costs& costs) {
  Json json = {{"costs", costs_json(costs)}};
  if (!flags.plan_file.empty()) {
    json["plan"] = print(plan);
    json["title"] = flags.plan_file == "-"
                        ? "standard input"
                        : std::filesystem::path(flags.plan_file).filename().string();
    return json;
  }
  json["schedule"] = flags.schedule;
  if (flags.title() != flags.schedule) json["title"] = flags.title();  // with its setting
  json["stages"] = layout.stages;
  if (!flags.cyclic()) json["microbatches"] = layout.microbatches;
  if (endless)
    json["endless"] = true;
  else
    json["steps"] = layout.steps;
  if (layout.width > 1) json["data_parallel"] = layout.width;
  if (layout.first > 0) json["first"] = layout.first;
  if (layout.zero > 0) json["zero"] = layout.zero;
  for (auto [name, yes] :
       {std::pair("recompute", layout.recompute), {"clip", layout.clip}, {"tied", layout.tied}})
    if (yes) json[name] = true;
  if (!flags.codec.empty()) json["codec"] = flags.codec;
  if (!flags.channel.empty()) json["channel"] = flags.channel;
  add_own_flags(flags, json);
  return json;
}

}  // namespace plangrad::examples
