// summary.json has the costs of stages, the model's shape, and the flags with the layout.
// Chapter 16.
#include "examples/programs/plan_costs.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "examples/programs/plan_flags.h"
#include "examples/programs/program.h"
#include "nn/checkpoint/file.h"

namespace plangrad::examples {

using namespace parallel;
using Json = nlohmann::json;

namespace {

/// Whether two models have the same arithmetic in each layer.
bool is_alike(const Model& one, const Model& two) {
  const auto flops = &LayerSpec::flops;
  return std::ranges::equal(one, two, {}, flops, flops);
}

PlannedModel model_of(const std::string& asked, const std::string& summary, const Json& config) {
  const bool has_gpt = config.contains("model") && config["model"].contains("context");
  PG_CHECK(has_gpt || !asked.empty(), "the run is not one of train_gpt; name its model by --model");
  if (asked.empty()) return planned_model(summary);
  const PlannedModel model = planned_model(asked);
  PG_CHECK(!has_gpt || is_alike(model.layers, planned_model(summary).layers), "the run trained ",
           "another model than --model ", asked, "; leave out --model");
  return model;
}

/// How many times as many threads the run's kernels had as those of one of `ranks` ranks that share
/// its cores. It is 1 where kernels run on a device, or only take pretended time.
double more_threads(const Json& machine, int ranks) {
  const int threads = machine.value("threads", 0), cores = machine.value("cores", 0);
  return threads == 0 ? 1
                      : threads / std::max(1.0, static_cast<double>(cores / std::max(1, ranks)));
}

/// The costs that the run has, by their names.
Costs costs_of(const Json& summary, int devices) {
  const Json& found = summary["costs"];
  const double slower = more_threads(summary.at("machine"), devices);
  Costs costs;
  for (const char* name : {"forward", "backward", "input_part", "weight_part", "step"})
    if (found.contains(name)) {
      Json seconds = found[name];
      for (Json& each : seconds) each = slower * each.get<double>();
      find(cost_fields(), name)->take(costs, text_of(seconds));
    }
  return costs;
}

/// The text of the run, and how it is cut into tokens, as words of a command that a shell takes.
std::string data_words(const Json& flags) {
  std::string words;
  for (const char* name : {"--data", "--vocab"}) {
    std::string file = flags.value(name, "");
    if (file.empty()) continue;
    for (std::size_t at = 0; (at = file.find('\'', at)) != file.npos; at += 4)
      file.replace(at, 1, "'\\''");
    const bool is_plain = file.find_first_of(" \t\n'\"\\$`&|;<>()*?[]#~!{}") == file.npos;
    const char* quote = is_plain ? "" : "'";
    words += text(' ', name, ' ', quote, file, quote);
  }
  return printable(words);
}

RunCosts read(const std::filesystem::path& folder, const std::string& model, int devices) {
  const std::string file = (folder / "summary.json").string();
  PG_CHECK(std::filesystem::is_regular_file(file), "this is not the folder of a run, which has a ",
           "summary.json");
  const Json summary = nn::read_json(file);
  PG_CHECK(summary.contains("costs"), "its summary.json has no costs; train again with this ",
           "version, for as many updates as are recorded");
  const Json &config = summary.at("config"), &flags = config.at("flags");
  PG_CHECK(flags.contains("--schedule"), "the run has a plan of its own (--plan); costs are those ",
           "of runs with a --schedule");
  PG_CHECK(flags.value("--prune", 0.0) == 0, "the run prunes; costs are those of runs without");
  const Layout layout = ScheduleFlags{saved_spec(flags)}.found();
  PlannedModel planned = model_of(model, file, config);
  const int batch = flags.at("--batch").get<int>();
  PG_CHECK(batch >= layout.per_step(), "its summary.json is damaged");
  const int ranks = summary.at("ranks").get<int>();
  const MeasuredSeconds seconds(Training(planned.layers, layout.stages, layout.cuts),
                                costs_of(summary, devices > 0 ? devices : ranks),
                                batch / layout.per_step(), layout.zero > 0 ? layout.width : 1);
  return {std::move(planned), seconds, flags.at("--dtype").get<std::string>(), batch, ranks,
          data_words(flags)};
}

}  // namespace

RunCosts run_costs(const std::filesystem::path& folder, const std::string& model, int devices) try {
  return read(folder, model, devices);
} catch (const Json::exception&) {
  throw Error(text("--costs ", folder.string(), ": its summary.json is damaged"));
} catch (const Error& error) {
  throw Error(text("--costs ", folder.string(), ": ", error.what()));
}

}  // namespace plangrad::examples
