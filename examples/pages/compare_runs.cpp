// What a run was asked for is its summary's "config". A flag that one run lacks counts as
// different. Chapter 06.
#include "examples/pages/compare_runs.h"

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "autograd/error.h"
#include "examples/pages/metrics_table.h"
#include "examples/pages/report_page.h"
#include "parallel/observers/metric_files.h"

namespace plangrad::examples {

using namespace plangrad::parallel;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

/// The types of what pages read in a summary. Keys that are not named have the type of "", and
/// keys that end in "_per_second" that of "per_second".
const json summary_types = json::parse(R"({
    "config": {"flags": {}, "model": {}}, "machine": {}, "seconds": 0, "steps": 0, "loss": 0,
    "validation_loss": 0, "validation_accuracy": 0, "per_second": 0, "parameters": 0, "ranks": 0,
    "largest_burst_bytes": 0, "peak_activation_bytes": 0, "model_flops_utilization": 0,
    "recorded_updates": [0], "session_steps": 0, "begun_by": "",
    "peak_bytes": [{"": 0}], "peak_bytes_pruned": [{"": 0}], "peak_bytes_validation": [{"": 0}],
    "bubble": {"": 0}, "update_seconds": {"": 0}, "bytes_sent": {"": 0},
    "breakdown": {"": {"ranks": [{"": 0}], "": 0}}, "state": "", "date": "", "command": ""})");

/// Whether a value and its parts have these types, and short names; numbers and texts may be null.
bool has_types(const json& value, const json& types) {
  if (value.is_null()) return !types.is_structured();
  if (types.is_number()) return value.is_number();
  if (value.type() != types.type()) return false;
  if (value.is_array())
    return std::ranges::all_of(value, [&](const auto& each) { return has_types(each, types[0]); });
  if (!value.is_object()) return true;
  for (const auto& [key, part] : value.items()) {
    auto named = types.find(key.ends_with("_per_second") ? "per_second" : key);
    if (named == types.end()) named = types.find("");
    if (key.size() > 200 || (named != types.end() && !has_types(part, *named))) return false;
  }
  return true;
}

json summary_in(const fs::path& folder) {
  const fs::path path = folder / "summary.json";
  PG_CHECK(fs::exists(folder), folder.string(), " is not there; give the folders of runs (--out)");
  PG_CHECK(
      fs::exists(path), folder.string(),
      " holds no summary.json: it is not a run's folder, or its run has neither saved nor ended");
  json summary = json_in(path);
  PG_CHECK(summary.is_object() && summary.contains("seconds") && summary.contains("config") &&
               has_types(summary, summary_types),
           path.string(), " is not a run's summary; train_gpt and train_resnet write one to --out");
  return summary;
}

/// The folders' names, without what all of them begin with; the whole path if two are alike.
std::vector<std::string> names_of(const std::vector<fs::path>& folders) {
  std::vector<std::string> names;
  for (const fs::path& folder : folders) names.push_back(folder_name(folder));
  if (std::set<std::string>(names.begin(), names.end()).size() == names.size()) return names;
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = folders[i].string();
  return names;
}

/// Settings by name: flags as they are typed, and sizes of the model.
std::map<std::string, json> settings_in(const json& summary) {
  std::map<std::string, json> settings;
  const json& config = summary.at("config");
  auto add = [&](const json& from, const std::string& prefix, const char* key) {
    if (from.contains(key)) settings[prefix + key] = from[key];
  };
  const json flags = config.value("flags", json::object());
  for (const auto& [name, value] : flags.items()) settings[name] = value;
  const json model = config.value("model", json::object());
  for (const auto& [name, value] : model.items()) settings["model: " + name] = value;
  for (const char* key : {"ranks", "version"}) add(summary, "", key);
  const json machine = summary.value("machine", json::object());
  for (const char* key : {"processor", "host", "cores", "device"}) add(machine, "machine: ", key);
  return settings;
}

json differences(const std::vector<json>& summaries) {
  std::vector<std::map<std::string, json>> all;
  std::set<std::string> names;
  for (const json& summary : summaries) {
    all.push_back(settings_in(summary));
    for (const auto& [name, value] : all.back()) names.insert(name);
  }
  json result = json::array();
  for (const std::string& name : names) {
    json values = json::array();
    for (const auto& settings : all)
      values.push_back(settings.contains(name) ? settings.at(name) : json());
    const bool differ =
        std::ranges::any_of(values, [&](const json& each) { return each != values[0]; });
    if (differ) result.push_back({{"what", name}, {"values", values}});
  }
  return result;
}

/// What differs in which settings, so that readers do not compare what can't be compared.
json warnings(const json& differences, const std::vector<json>& summaries) {
  std::set<std::string> files;  // by name: machines keep one text in different places
  std::set<json> steps;
  for (const json& summary : summaries) {
    const json data = summary.at("config").value("flags", json::object()).value("--data", json());
    files.insert(data.is_string() ? fs::path(data.get<std::string>()).filename().string() : "");
    steps.insert(summary.value("steps", json()));
  }
  auto differs = [&](auto in) {
    return std::ranges::any_of(
        differences, [&](const json& each) { return in(each["what"].get<std::string>()); });
  };
  auto is = [](const char* name) { return [=](const std::string& what) { return what == name; }; };
  json result = json::array();
  if (differs([](const std::string& what) { return what.starts_with("model: "); }))
    result.push_back(
        "The runs train different models: their losses, times and bytes are not those "
        "of one task.");
  if (files.size() > 1 || differs(is("--validation")) || differs(is("--vocab")))
    result.push_back("The runs read different data: their losses can't be compared.");
  if (steps.size() > 1)
    result.push_back(
        "The runs have made different numbers of updates: compare losses in the curves.");
  if (differs(is("--batch")))
    result.push_back(
        "The runs have different batches: an update of one is not an update of another.");
  if (differs([](const std::string& what) { return what.starts_with("machine: "); }))
    result.push_back("The runs ran on different machines: their times can't be compared.");
  return result;
}

}  // namespace

json compare_runs(const std::vector<fs::path>& folders) {
  constexpr std::size_t points = 400;
  PG_CHECK(folders.size() >= 2, "give the folders of two or more runs to compare",
           folders.empty() ? "" : "; a run's own page is report.html in its folder");
  const std::vector<std::string> names = names_of(folders);
  std::vector<json> summaries;
  json result{{"runs", json::array()}};
  for (std::size_t i = 0; i < folders.size(); ++i) {
    summaries.push_back(summary_in(folders[i]));
    MetricsTable table;
    read_metrics(folders[i] / "metrics.jsonl", [&](const json& line) { table.add(line); });
    result["runs"].push_back(
        {{"name", names[i]}, {"summary", summaries.back()}, {"metrics", table.columns(points)}});
  }
  result["title"] = fmt::format("{}: comparison of runs", fmt::join(names, ", "));
  result["differences"] = differences(summaries);
  result["warnings"] = warnings(result["differences"], summaries);
  return result;
}

}  // namespace plangrad::examples
