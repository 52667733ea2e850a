// A plan's header says how many stages there are, and whether the first and the last share a table.
// summary.json has the costs of stages, the model's shape, and the flags with the layout.
// Chapters 06 and 16.
#include "examples/programs/plan_model.h"

#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "autograd/cpu/cpu_backend.h"
#include "examples/pages/plan_facts.h"
#include "examples/programs/plan_flags.h"
#include "examples/programs/program.h"
#include "nn/checkpoint/file.h"
#include "nn/models/gpt.h"
#include "parallel/observers/recording.h"
#include "parallel/plan/lifetimes.h"
#include "sparse/pruning.h"

namespace plangrad::examples {

using namespace parallel;

std::string model_words() {
  std::string gpt = nn::to_json(nn::GptConfig()).dump();
  for (std::size_t at = 0; (at = gpt.find(',', at)) != gpt.npos;) gpt.insert(++at, " ");
  return fmt::format(
      "{}; or a file: a checkpoint's manifest.json, a run's summary.json, or the "
      "JSON that these have of a GPT, such as {}",
      fmt::join(planned_models(), ", "), gpt);
}

void ModelFlags::add_flags(Flags& flags) {
  flags.group("Model (its bytes, and the memory that ranks need)");
  flags.words("--model", model, "NAME", model_words());
  flags.whole("--sequences", sequences, 1, "sequences, or images, of a microbatch");
  flags.choice("--dtype", dtype, {"f32", "bf16"},
               "type of weights and activations (default: that in which --machine is faster, else "
               "f32)");
  flags.number("--prune", prune, 0, 0.9999,
               "share of each matrix that is pruned; ranks store the rest (SAMO)");
  flags.choice("--device", device, {"cpu", "gpu"},
               "whose memory: kernels of this machine's CPU need scratch; a GPU adds gradients "
               "into sums, and the scratch of its kernels is not counted (default: gpu if the "
               "devices of --machine have no cores, else cpu)");
  flags.whole("--threads", threads, 1, "compute threads of a rank on the CPU");
  for (const char* name : {"--sequences", "--dtype", "--prune", "--device", "--threads"})
    flags.needs(name, "--model");
}

std::shared_ptr<Backend> kernels_of(const std::string& device, int threads) {
  set_compute_threads(threads);
  return device == "cpu" ? std::make_shared<autograd::CpuBackend>() : nullptr;
}

bool ModelFlags::is_tied(int stages) const {
  return Training(planned_model(model).layers, stages).shared.parameters.size() > 0;
}

DType dtype_on(const Machine* machine, const std::string& given) {
  const bool is_half = machine && machine->peak_f16 > machine->peak_f32;
  return (given.empty() ? is_half : given == "bf16") ? DType::bf16 : DType::f32;
}

std::string device_on(const Machine* machine, const std::string& given) {
  if (!given.empty()) return given;
  return machine && machine->cores == 0 ? "gpu" : "cpu";
}

ModelCosts ModelFlags::costs(const Plan& plan, const Layout& layout, const Machine* machine) const {
  check_layout({}, {.stages = plan.stages, .cuts = layout.cuts});
  const CostSettings settings{.dtype = dtype_on(machine, dtype),
                              .examples = sequences,
                              .recompute_layers = layout.recompute && plan.stages == 1,
                              .cuts = layout.cuts,
                              .pruned = prune,
                              .stored = sparse::stored_count,
                              .like = kernels_of(device_on(machine, device), threads)};
  ModelCosts costs = model_costs(planned_model(model), plan.stages, settings);
  const bool is_tied = costs.training.shared.parameters.size() > 0;
  PG_CHECK(is_tied == !plan.tied.empty(), "--model ", model, ": its stages share ",
           is_tied ? "a table, and those of the plan nothing" : "nothing, and those of the plan do",
           "; make a plan with --schedule, which takes this from the model");
  return costs;
}

Costs with_model(Costs costs, const ModelCosts& model, const Plan& plan) {
  const Costs plain;
  const auto is_free = [](const std::vector<std::int64_t>& list) {
    return std::ranges::all_of(list, [](std::int64_t bytes) { return bytes == 0; });
  };
  const bool computes =
      costs.machine && costs.forward == plain.forward && costs.backward == plain.backward;
  std::vector<StageSeconds> seconds(model.stages.size());
  if (computes) seconds = stage_seconds(model, *costs.machine);
  const std::size_t shards = plan.sharded > 0 ? holders(plan).front().size() : 1;
  const Costs own =
      costs_of_stages(model, seconds, plan.codec, plan.channel, static_cast<int>(shards));
  const auto take = [&](auto... lists) { ((costs.*lists = own.*lists), ...); };
  if (computes) take(&Costs::forward, &Costs::backward);
  if (computes && costs.input_part.empty()) take(&Costs::input_part);
  if (computes && costs.weight_part.empty()) take(&Costs::weight_part);
  if (computes && costs.step == plain.step) take(&Costs::step);
  if (is_free(costs.activation_bytes))
    take(&Costs::activation_bytes, &Costs::output_bytes, &Costs::activation_gradient_bytes);
  if (is_free(costs.weight_bytes)) take(&Costs::weight_bytes, &Costs::sum_bytes);
  return costs;
}

nlohmann::json memory_json(const std::vector<Peak>& peaks) {
  const Peak& most = fullest(peaks);
  std::vector<double> totals(peaks.size());
  std::ranges::transform(peaks, totals.begin(), &Peak::total);
  nlohmann::json memory = memory_json(totals, most.level), &full = memory["fullest"];
  full["seconds"] = most.level.seconds;
  if (most.cell >= 0) full["cell"] = print(most.during), full["index"] = most.cell;
  if (most.saving > 0) full["saving"] = most.saving;
  return memory;
}

using Json = nlohmann::json;

namespace {

PlannedModel model_of(const std::string& asked, const std::string& summary, const Json& config) {
  const bool has_gpt = config.contains("model") && config["model"].contains("context");
  PG_CHECK(has_gpt || !asked.empty(), "the run is not one of train_gpt; name its model by --model");
  if (asked.empty()) return planned_model(summary);
  const PlannedModel model = planned_model(asked);
  const auto flops = &LayerSpec::flops;  // equal models have the same arithmetic in each layer
  PG_CHECK(
      !has_gpt || std::ranges::equal(model.layers, planned_model(summary).layers, {}, flops, flops),
      "the run trained another model than --model ", asked, "; leave out --model");
  return model;
}

/// The costs that the run has, by their names.
Costs costs_of(const Json& summary) {
  const Json& found = summary["costs"];
  Costs costs;
  for (const char* name : {"forward", "backward", "input_part", "weight_part", "step"})
    if (found.contains(name))
      located(text("its summary.json: costs: ", name, ": "),
              [&] { find(cost_fields(), name)->take(costs, text_of(found[name])); });
  const auto is_whole = [](const std::vector<double>& list) {
    return !list.empty() && std::ranges::count(list, 0) == 0;
  };
  PG_CHECK(is_whole(costs.forward), "its summary.json: costs: forward: a stage takes no time");
  PG_CHECK(is_whole(costs.backward) || is_whole(costs.input_part),
           "its summary.json: costs: backward: a stage takes no time");
  return costs;
}

/// The text of the run, and how it is cut into tokens, as words of a command that a shell takes.
std::string data_words(const Json& flags) {
  std::string words;
  for (const char* name : {"--data", "--vocab"})
    if (const std::string file = flags.value(name, ""); !file.empty())
      words += text(' ', name, ' ', shell_word(file));
  return printable_line(words);
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
  const int most_ranks = std::max(1, devices > 0 ? devices : ranks);
  Training training(planned.layers, layout.stages, layout.cuts);
  training.recompute_layers = layout.recompute && layout.stages == 1;
  MeasuredSeconds seconds(training, costs_of(summary), batch / layout.per_step(),
                          layout.zero > 0 ? layout.width : 1);
  // No threads: kernels run on a device, or only take pretended time.
  seconds.threads = summary.at("machine").value("threads", 0);
  seconds.cores = summary["machine"].value("cores", 0);
  if (seconds.threads > 0 && seconds.threads < seconds.cores / ranks)  // as OMP_NUM_THREADS says
    seconds.most_threads = seconds.threads;
  return {std::move(planned),
          seconds,
          flags.at("--dtype").get<std::string>(),
          flags.at("--device").get<std::string>(),
          std::clamp(seconds.cores / most_ranks, 1, seconds.most_threads),
          batch,
          ranks,
          data_words(flags)};
}

}  // namespace

RunCosts run_costs(const std::filesystem::path& folder, const std::string& model, int devices) try {
  return located(text("--costs ", folder.string(), ": "),
                 [&] { return read(folder, model, devices); });
} catch (const Json::exception&) {
  throw Error(text("--costs ", folder.string(), ": its summary.json is damaged"));
}

}  // namespace plangrad::examples
