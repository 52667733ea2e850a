// Fields of a table under their names; what is usual is left out. Chapter 06.
#include "examples/programs/player_request.h"

#include <filesystem>
#include <nlohmann/json.hpp>

namespace plangrad::examples {
namespace {

using Json = nlohmann::json;

template <class Object>
void add(const std::vector<const parallel::Field<Object>*>& fields, const Object& object,
         Json& json, const std::set<std::string>& always = {}) {
  for (const parallel::Field<Object>* field : fields)
    if (always.contains(field->name) || field->is_set(object))
      json[field->name] = json_of(field->kind, field->show(object));
}

}  // namespace

Json player_request(const ScheduleFlags& flags, const parallel::Plan& plan,
                    const parallel::Costs& costs) {
  Json json = {{"costs", Json::object()}};
  add(parallel::cost_fields(), costs, json["costs"]);
  if (!flags.plan_file.empty()) {
    json["plan"] = print(plan);
    json["title"] = flags.plan_file == "-"
                        ? "standard input"
                        : std::filesystem::path(flags.plan_file).filename().string();
    return json;
  }
  parallel::PlanSpec request = flags;
  request.layout = flags.found();
  std::set<std::string> always = flags.given;
  always.insert({"stages", "microbatches", "steps"});
  add(parallel::spec_fields(), request, json, always);
  if (flags.title() != flags.schedule) json["title"] = flags.title();  // with its setting
  if (flags.cyclic()) json.erase("microbatches");
  if (flags.endless) json.erase("steps");
  return json;
}

}  // namespace plangrad::examples
