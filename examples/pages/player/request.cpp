// Keys of a request. Chapter 06.
#include "examples/pages/player/request.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "autograd/error.h"
#include "examples/pages/player/ideas.h"
#include "parallel/schedules/schedule.h"

namespace plangrad::examples {
namespace {

using Json = nlohmann::json;
using autograd::text;

constexpr Field<PlayerRequest> fields[] = {
    row<&PlayerRequest::text>("plan", ""),
    row<&PlayerRequest::title>("title", ""),
    row<&PlayerRequest::slow_rank>("slow_rank", ""),
    row<&PlayerRequest::slow_factor>("slow_factor", ""),
};

/// Sets the field that a key names. throws: Error that names the key, and what it takes
template <class Object>
void take(const std::string& key, const Json& value, const Field<Object>& field, Object& object) {
  try {
    check_type(field.kind, value);
    field.take(object, text_of(value));
  } catch (const autograd::Error& error) {
    throw autograd::Error(text(key, ": ", error.what()));
  }
}

/// The field that a key names. throws: Error if there is none
template <class Object>
const Field<Object>& named(const std::string& key, const char* whose,
                           const std::vector<const Field<Object>*>& all) {
  std::vector<std::string> names;
  for (const Field<Object>* field : all) names.push_back(field->name);
  const Field<Object>* found = find(all, key);
  PG_CHECK(found, whose, ": there is no \"", key, "\"; there are ",
           fmt::format("{}", fmt::join(names, ", ")), autograd::did_you_mean(key, names));
  return *found;
}

/// Sets a field of the player, of the schedule, or of costs.
void take(const std::string& key, const Json& value, PlayerRequest& request) {
  for (const Field<PlayerRequest>& field : fields)
    if (key == field.name) return take(key, value, field, request);
  if (key == "models") return static_cast<void>(value.get_to(request.models));
  if (key == "of") {
    for (const auto& [name, part] : value.items())
      give(request.of, named(name, "a schedule", spec_fields()), text_of(part));
    request.of.layout = request.of.completed();
    return;
  }
  if (key == "costs") {
    PG_CHECK(value.is_object(), "costs: expected an object, got ", value.dump());
    for (const auto& [name, cost] : value.items())
      if (!cost.is_null()) take(name, cost, named(name, "costs", cost_fields()), request.costs);
    return;
  }
  const SpecField& field = named(key, "a schedule", spec_fields());
  take<PlanSpec>(key, value, field, request);
  request.given.insert(key);
}

}  // namespace

PlayerRequest read_request(const Json& json) {
  PG_CHECK(json.is_object(), "a request is an object, with a \"plan\" or a \"schedule\"");
  PlayerRequest request;
  for (const auto& [key, value] : json.items()) take(key, value, request);
  PG_CHECK(json.contains("plan") || json.contains("schedule"),
           "a request needs a \"plan\" or a \"schedule\"");
  PG_CHECK(!json.contains("plan") || !json.contains("schedule"),
           "give a \"plan\" or a \"schedule\", not both");
  if (json.contains("plan")) return request;
  request.check_own_fields();
  request.layout = request.completed();
  return request;
}

Costs with_backward(Costs costs) {
  if (!costs.backward.empty()) return costs;
  const std::vector<double>&inputs = costs.input_part, &weights = costs.weight_part;
  costs.backward = Costs().backward;
  const std::size_t most = std::max(inputs.size(), weights.size());
  for (const std::vector<double>* part : {&inputs, &weights})  // others are refused later
    if (part->empty() || (part->size() != 1 && part->size() != most)) return costs;
  costs.backward.resize(most);
  for (std::size_t k = 0; k < most; ++k)
    costs.backward[k] = value_at(k, inputs) + value_at(k, weights);
  return costs;
}

Costs PlayerRequest::costs_of(const Plan& plan) const {
  Costs result = encoded(with_backward(costs), plan);
  if (slow_rank < 0 || slow_rank >= plan.ranks()) return result;
  if (result.slowness.size() == 1) result.slowness.resize(plan.ranks(), result.slowness[0]);
  if (slow_rank < static_cast<int>(result.slowness.size()))
    result.slowness[slow_rank] *= slow_factor;
  return result;
}

Json list_of_fields() {
  Json all = Json::array();
  for (const SpecField* field : spec_fields()) {
    Json shown{{"key", field->name},
               {"name", field->flag_name().substr(2)},
               {"what", field->what + (field->more ? field->more() : "")},
               {"kind", name_of(field->kind)},
               {"least", field->least},
               {"usual", json_of(field->kind, field->show(PlanSpec()))},
               {"own", field->thing != nullptr}};
    if (std::isfinite(field->most)) shown["most"] = field->most;
    if (field->choices) shown["values"] = field->choices();
    all.push_back(shown);
  }
  return all;
}

Json list_of_schedules() {
  Json all = Json::array();
  for (const Schedule* each : schedules()) {
    Json own = Json::array();
    for (const SpecField* field : each->fields) own.push_back(field->name);
    const Idea* idea = find_idea(each->name);
    all.push_back({{"name", each->name},
                   {"idea", idea ? idea->sentence : ""},
                   {"paper", idea ? idea->paper : ""},
                   {"cyclic", each->cyclic},
                   {"chunks", each->chunks},
                   {"has_order", each->has_order},
                   {"overlaps", each->overlaps},
                   {"zero", each->highest_zero},
                   {"own", own}});
  }
  return all;
}

}  // namespace plangrad::examples
