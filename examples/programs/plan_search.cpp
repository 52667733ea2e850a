// One walk makes JSON, and the table is made of it.
// Chapter 06.
#include "examples/programs/plan_search.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "examples/programs/plan_machine.h"
#include "examples/programs/program.h"
#include "parallel/drawing/figure.h"
#include "parallel/planner/search.h"
#include "sparse/pruning.h"

namespace plangrad::examples {

using namespace parallel;
using Json = nlohmann::json;

void SearchFlags::add_flags(CLI::App& app) {
  Flags flags(app);
  flags.group("Search");
  flags
      .words("--model", model, "NAME",
             text("what is trained, or a file with the JSON of a GPT: ",
                  fmt::format("{}", fmt::join(planned_models(), ", "))))
      ->required();
  flags.words("--machine", machine, "NAME", "where, or a file with a machine's text")->required();
  flags.whole("--devices", devices, 1, "devices; plans may leave some idle");
  flags.whole("--batch", batch, 1, "sequences, or images, of an update");
  flags.number("--memory", memory, 0, limits::large,
               "bytes of each device (default: the machine's)");
  flags.words("--schedule", schedule, "NAME", "only this one (default: all that divide a batch)");
  flags.words("--dtype", dtype, "TYPE", "f32 or bf16 (default: in which the machine is faster)")
      ->check(CLI::IsMember({"f32", "bf16"}));
  flags.number("--prune", prune, 0, 0.9999,
               "share of each matrix that is pruned; ranks store the rest (SAMO)");
}

namespace {

DType dtype_of(const SearchFlags& flags, const Machine& machine) {
  if (flags.dtype.empty()) return machine.peak_f16 > machine.peak_f32 ? DType::bf16 : DType::f32;
  return flags.dtype == "bf16" ? DType::bf16 : DType::f32;
}

CostSettings settings_of(const SearchFlags& flags, const Machine& machine) {
  CostSettings settings{.dtype = dtype_of(flags, machine)};
  if (flags.prune > 0)
    settings.stored = [share = flags.prune](const Parameter& parameter) {
      const std::int64_t all = parameter.shape.numel();
      return sparse::is_prunable(parameter) ? sparse::kept_count(all, share) : all;
    };
  return settings;
}

Json to_json(const Found& found, Evaluation& evaluation, int batch) {
  const Candidate& plan = found.candidate;
  const Layout& layout = plan.layout;
  Json json{{"schedule", plan.schedule},
            {"depth", plan.depth()},
            {"width", layout.width},
            {"stages", layout.stages},
            {"microbatches", layout.microbatches},
            {"sequences", plan.examples},
            {"recompute", layout.recompute},
            {"zero", layout.zero},
            {"side_by_side", plan.packing == Packing::stages ? "replicas" : "stages"},
            {"seconds", found.seconds},
            {"bound", found.bound},
            {"per_second", batch / found.seconds},
            {"bytes", found.bytes},
            {"rank", found.peak.rank}};
  if (plan.by_seconds) json["cuts"] = evaluation.cuts(plan);
  if (found.peak.cell >= 0) json["cell"] = print(found.peak.during);
  for (int kind = 0; kind < memory_kinds; ++kind)
    if (const double bytes = found.peak.level.bytes[kind]; bytes > 0)
      json["memory"][name_of(Memory(kind))] = bytes;
  if (found.peak.saving > 0) json["saving"] = found.peak.saving;
  if (const double total = found.parts.total(); total > 0)
    for (const NamedPart& part : named_parts)
      json["shares"][part.key] = found.parts.*part.seconds / total;
  return json;
}

std::string command_of(const PlannedModel& model, const Found& found, int batch, DType dtype,
                       double prune) {
  const Layout& layout = found.candidate.layout;
  std::string command = fmt::format(
      "{} --batch {} --dtype {} --schedule {} --stages {} --data-parallel {} --microbatches {}",
      model.command, batch, name_of(dtype), found.candidate.schedule, layout.stages, layout.width,
      layout.microbatches);
  if (layout.recompute) command += " --recompute";
  if (layout.zero > 0) command += text(" --zero ", layout.zero);
  if (layout.width > 1) command += " --reduction ring";
  if (prune > 0) command += fmt::format(" --prune {:g} --samo", prune);
  return command;
}

/// "gpipe, 8 x 8, 4 sequences, recompute"
std::string name_of_plan(const Json& plan) {
  std::string name =
      fmt::format("{}, {} x {}, {} a microbatch", plan["schedule"].get<std::string>(),
                  plan["depth"].get<int>(), plan["width"].get<int>(), plan["sequences"].get<int>());
  if (plan["recompute"]) name += ", recompute";
  if (plan["zero"] > 0) name += text(", ZeRO ", plan["zero"].get<int>());
  return name;
}

/// "16.5 GB, 1.2 GB too much, on rank 7 in 7F7, most of it activations"
std::string excess_of(const Json& plan, double memory) {
  std::string line =
      fmt::format("{}, {} too much, on rank {}", bytes_text(plan["bytes"]),
                  bytes_text(plan["bytes"].get<double>() - memory), plan["rank"].get<int>());
  if (plan.value("saving", 0.0) == plan["bytes"]) return line + " while it saves a checkpoint";
  if (plan.contains("cell")) line += " in " + plan["cell"].get<std::string>();
  std::string most;
  for (const auto& [kind, bytes] : plan["memory"].items())
    if (most.empty() || bytes > plan["memory"][most]) most = kind;
  return line + ", most of it " + most + " (" + bytes_text(plan["memory"][most]) + ")";
}

}  // namespace

Json SearchFlags::run() const {
  const PlannedModel planned = planned_model(model);
  Machine devices_of = parse_machine(machine_text(machine));
  if (memory > 0) devices_of.memory = memory;
  const CostSettings settings = settings_of(*this, devices_of);
  Evaluation evaluation(planned, devices_of, settings);
  Space space;
  if (!schedule.empty()) space.schedules = {schedule};
  const int layers = static_cast<int>(planned.layers.size());
  SearchResult result;
  {
    ProgressLine line;
    result =
        parallel::search(evaluation, candidates(evaluation, layers, devices, batch, space),
                         devices_of.memory, space.keep, [&](std::size_t done, std::size_t all) {
                           line.show(fmt::format("{} of at most {} plans", done, all));
                         });
  }
  Json json{{"model", model},
            {"parameters", whole_parameters(planned.layers).numel()},
            {"machine", devices_of.name},
            {"devices", devices},
            {"batch", batch},
            {"dtype", name_of(settings.dtype)},
            {"memory", devices_of.memory},
            {"candidates", result.candidates},
            {"refused", result.refused},
            {"simulated", result.simulated}};
  if (result.nearest) json["nearest"] = to_json(*result.nearest, evaluation, batch);
  PG_CHECK(!result.best.empty() || result.nearest, "no schedule divides --batch ", batch,
           " over --devices ", devices, " as asked");
  PG_CHECK(!result.best.empty(), "no plan fits the ", bytes_text(devices_of.memory), " of ",
           devices == 1 ? "one device" : fmt::format("each of {} devices", devices),
           "; the nearest, ", name_of_plan(json["nearest"]), ", takes ",
           excess_of(json["nearest"], devices_of.memory));
  for (const Found& found : result.best) json["best"].push_back(to_json(found, evaluation, batch));
  json["command"] = command_of(planned, result.best.front(), batch, settings.dtype, prune);
  return json;
}

namespace {

/// The place of each plan; those that are as fast as the one before, to 1%, share it.
std::vector<std::size_t> places_of(const Json& plans) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const bool is_tie =
        i > 0 && plans[i]["seconds"] < 1.01 * plans[places.back() - 1]["seconds"].get<double>();
    places.push_back(is_tie ? places.back() : i + 1);
  }
  return places;
}

std::string row_of(const Json& plan, std::size_t place) {
  const Json& shares = plan["shares"];
  const auto percent = [&](const char* key) {
    return fmt::format("{:.0f}%", 100 * shares[key].get<double>());
  };
  return fmt::format(
      "{:<3}{:>9.4g}{:>10}{:>10}{:>10}{:>6}  {:<15}{:<10}{:>4}  {:<9}{:>10}{:>10}"
      "{:>9}{:>6}{:>8}\n",
      place, plan["per_second"].get<double>(), seconds_text(plan["seconds"]),
      bytes_text(plan["bytes"]),
      fmt::format("{} x {}", plan["depth"].get<int>(), plan["width"].get<int>()),
      plan["sequences"].get<int>(), plan["schedule"].get<std::string>(),
      plan["recompute"] ? "yes" : "no", plan["zero"].get<int>(),
      plan["side_by_side"].get<std::string>(), percent("compute"), percent("point_to_point"),
      percent("waiting"), percent("collective"), percent("update"));
}

/// What the first plan mostly does beside computing.
std::string limit_of(const Json& plan) {
  const Json& shares = plan["shares"];
  const std::pair<const char*, const char*> limits[] = {
      {"point_to_point", "messages between stages"},
      {"waiting", "waiting for other ranks' computations"},
      {"collective", "sums over replicas"},
      {"update", "updates"}};
  const auto most = std::ranges::max_element(
      limits, {}, [&](const auto& limit) { return shares.value(limit.first, 0.0); });
  if (shares.value(most->first, 0.0) < 0.01) return "The first plan computes all the time.\n";
  return fmt::format(
      "The first plan computes {:.0f}% of the time; most of the rest, {:.0f}%, is {}.\n",
      100 * shares["compute"].get<double>(), 100 * shares.value(most->first, 0.0), most->second);
}

}  // namespace

std::string search_words(const Json& found) {
  const Json& best = found["best"];
  std::string words = fmt::format(
      "{:.3g} billion parameters in {}, {} devices of {}, {} examples an update\n"
      "{} plans: {} simulated",
      found["parameters"].get<double>() / 1e9, found["dtype"].get<std::string>(),
      found["devices"].get<int>(), found["machine"].get<std::string>(), found["batch"].get<int>(),
      found["candidates"].get<std::size_t>(), found["simulated"].get<std::size_t>());
  if (found["memory"] > 0)
    words += fmt::format(", {} of those looked at do not fit {}",
                         found["refused"].get<std::size_t>(), bytes_text(found["memory"]));
  words += fmt::format(
      "\n\n{:<3}{:>9}{:>10}{:>10}{:>10}{:>6}  {:<15}{:<10}{:>4}  {:<9}{:>10}{:>10}"
      "{:>9}{:>6}{:>8}\n",
      "", "per s", "update", "fullest", "d x w", "micro", "schedule", "recompute", "ZeRO",
      "on a host", "computing", "messages", "waiting", "sums", "update");
  const std::vector<std::size_t> places = places_of(best);
  for (std::size_t i = 0; i < best.size(); ++i) words += row_of(best[i], places[i]);
  words += "\nPlans that share a number take the same time, to 1%.\n" + limit_of(best[0]);
  if (found.contains("nearest"))
    words += fmt::format("Nearest that does not fit: {}: {}.\n", name_of_plan(found["nearest"]),
                         excess_of(found["nearest"], found["memory"]));
  words += "Run it: " + found["command"].get<std::string>() + "\n";
  if (found["best"][0].contains("cuts"))
    words += fmt::format(
        "Its stages are cut at layers {}; the command cuts them by arithmetic, which is slower.\n",
        fmt::join(found["best"][0]["cuts"].get<std::vector<int>>(), ", "));
  return words;
}

}  // namespace plangrad::examples
