// One walk makes JSON, and the table is made of it.
// Chapter 16.
#include "examples/programs/plan_search.h"

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "examples/pages/plan_facts.h"
#include "examples/programs/plan_flags.h"
#include "examples/programs/plan_machine.h"
#include "examples/programs/plan_model.h"
#include "examples/programs/plan_words.h"
#include "parallel/drawing/figure.h"
#include "parallel/planner/search.h"
#include "sparse/pruning.h"

namespace plangrad::examples {

using namespace parallel;
using Json = nlohmann::json;

/// Adds a flag for a list with commas; a value that comes again has no effect.
///   read: makes a value of a word, or throws an Error
template <class T, class Read>
static void add_list(Flags& flags, const char* name, std::vector<T>& all, const char* kind,
                     const std::string& what, const Read& read) {
  const auto take = [&all, read](const std::string& words) {
    all.clear();
    for (const std::string& word : split(words, ',')) {
      PG_CHECK(!word.empty(), "nothing is before or after a comma; leave the comma out");
      if (T each = read(word); std::ranges::find(all, each) == all.end()) all.push_back(each);
    }
  };
  flags.taken(name, kind, what, take).check(take);
}

namespace {

struct SearchFlags {
  std::string model = {}, machine = {};     ///< names or files
  std::string costs = {};                   ///< the folder of a run; empty: none
  int devices = 0, batch = 0;               ///< 0: 1, or the run's
  int rows = 10;                            ///< plans that are printed
  double memory = 0;                        ///< bytes of a device; 0: the machine's
  std::vector<std::string> schedules = {};  ///< empty: all
  std::string dtype = {};   ///< empty: the run's, or bf16 where the machine's peak is higher
  std::string device = {};  ///< empty: the run's, or cpu where the machine's devices have cores
  std::vector<double> prune = {0};
  std::vector<CodecSpec> codecs = {{}}, channels = {{}};

  void add_flags(Flags& flags);
  /// Searches, and tells how far it is in a line on stderr if that is a terminal.
  /// returns: what was asked, the numbers of plans, and the best ones: best, nearest, command
  /// throws: Error, also if no plan fits: it says how much the nearest one lacks
  Json run() const;
};

void SearchFlags::add_flags(Flags& flags) {
  flags.group("Search");
  flags.words("--model", model, "NAME", "what is trained: " + model_words());
  flags.words(
      "--costs", costs, "RUN",
      "the folder of a finished run of the model: the seconds that its computations took, "
      "divided among layers by their arithmetic, count instead of the machine's, whose rates "
      "say what microbatches of other sizes take");
  flags.words("--machine", machine, "NAME|FILE", "where: " + machine_words()).required();
  flags.whole("--devices", devices, 1,
              "devices; plans may leave some idle (default: 1, or as many ranks as RUN has)");
  flags.whole("--batch", batch, 1, "sequences, or images, of an update (default: 1, or RUN's)");
  flags.whole("--rows", rows, 1, "plans that are printed");
  flags.number("--memory", memory, 1, limits::large,
               "bytes of each device (default: the machine's)");
  add_list(flags, "--schedule", schedules, "NAME,...",
           "only these (default: all that divide a batch)", std::identity());
  flags.choice("--dtype", dtype, {"f32", "bf16"},
               "type of values (default: RUN's, or that in which the machine is faster)");
  flags.choice("--device", device, {"cpu", "gpu"},
               "whose memory, as in plan simulate (default: RUN's, or cpu if the machine says how "
               "many cores a device has)");
  add_list(flags, "--prune", prune, "X,...",
           "shares of each matrix that are pruned; ranks store the rest (SAMO), and need the "
           "memory of a dense run until they are (default: 0)",
           [](const std::string& word) { return read_number(word, 0.0, 0.9999); });
  const auto codec_list = [&](const char* name, std::vector<CodecSpec>& all, const char* what,
                              WhichCodecs which) {
    add_list(flags, name, all, "NAME,...",
             text(what, "; encoding takes no time (default: none): ", codec_usages(which)),
             parse_codec);
  };
  static_cast<CLI::App&>(flags).add_flag_callback(
      "--order",
      [] { throw UsageError("--order: the order of a layout's cells is searched by plan order"); },
      "not here: plan order searches the order of a layout's cells");
  codec_list("--codec", codecs, "how sums of gradients may be encoded", any_codec);
  codec_list("--codec-channel", channels, "how activations and their gradients may be",
             for_activations);
}

CostSettings settings_of(const SearchFlags& flags, const Machine& machine) {
  const CostSettings settings{.dtype = dtype_on(&machine, flags.dtype),
                              .stored = sparse::stored_count};
  for (const CodecSpec& each : flags.codecs) check_smaller("--codec", each, DType::f32);
  for (const CodecSpec& each : flags.channels) {
    PG_CHECK(each.kind().is_for_activations(), "--codec-channel ", print(each),
             ": this codec is for gradients; use ", codecs_to_use(for_activations));
    PG_CHECK(each.is_none() || !each.kind().keeps_bf16 || settings.dtype != DType::bf16,
             "--codec-channel ", print(each), ": activations are bf16 already; leave it out, or ",
             "search with --dtype f32");
    check_smaller("--codec-channel", each, settings.dtype);
  }
  return settings;
}

/// The model, the machine and the settings of a search, from flags and a run's costs.
struct Search {
  PlannedModel model;
  Machine machine;
  CostSettings settings;
  std::optional<MeasuredSeconds> run;
  std::string data;  ///< words of the command
};

/// Takes from the run what no flag says.
Search search_of(SearchFlags& flags) {
  Search search;
  search.machine = parse_machine(machine_text(flags.machine));
  if (flags.memory > 0) search.machine.memory = flags.memory;
  PG_CHECK(!flags.model.empty() || !flags.costs.empty(), "give --model NAME, or --costs RUN");
  if (flags.costs.empty()) {
    search.model = planned_model(flags.model);
    if (search.model.program == "train_gpt") search.data = " --data my.txt";
  } else {
    RunCosts run = run_costs(flags.costs, flags.model, flags.devices);
    PG_CHECK(flags.dtype.empty() || flags.dtype == run.dtype, "--dtype ", flags.dtype, ": --costs ",
             flags.costs, " is a run in ", run.dtype);
    flags.dtype = run.dtype;
    if (flags.device.empty()) flags.device = run.device;
    search.machine.cores = run.threads;
    if (flags.batch == 0) flags.batch = run.batch;
    if (flags.devices == 0) flags.devices = run.ranks;
    if (flags.model.empty()) flags.model = flags.costs;
    search.data = run.data;
    search.model = std::move(run.model);
    search.run = std::move(run.seconds);
    search.machine.host_seconds = 0;  // the run's times contain them
  }
  flags.batch = std::max(1, flags.batch), flags.devices = std::max(1, flags.devices);
  search.settings = settings_of(flags, search.machine);
  flags.device = device_on(&search.machine, flags.device);
  search.settings.like =
      kernels_of(flags.device, std::max(1, static_cast<int>(search.machine.cores)));
  return search;
}

/// Whether ranks hold another number of stages than the schedule usually has.
bool has_chunks(const Candidate& plan) {
  const Schedule& schedule = find_schedule(plan.schedule);
  return schedule.chunks > 0 && schedule.chunks != plan.layout.chunks;
}

/// The unusual properties of a plan that have no column in the table, such as "4 stages a rank".
std::vector<std::string> extras_of(const Candidate& plan) {
  const Layout& layout = plan.layout;
  std::vector<std::string> extras;
  if (has_chunks(plan) || (plan.depth() == 1 && layout.stages > 1))
    extras.push_back(counted(layout.chunks, "stage") + " a rank");
  if (!layout.codec.is_none()) extras.push_back("sums " + print(layout.codec));
  if (!layout.channel.is_none()) extras.push_back("messages " + print(layout.channel));
  if (plan.pruned > 0) extras.push_back(fmt::format("{:.4g}% pruned", 100 * plan.pruned));
  if (plan.by_seconds) extras.push_back("cut by seconds");
  return extras;
}

/// The flags that train a plan.
Json flags_of(const Found& found, Evaluation& evaluation, const SearchFlags& flags, DType dtype) {
  const Candidate& plan = found.candidate;
  const Layout& layout = plan.layout;
  PlanSpec spec{.schedule = plan.schedule, .layout = layout};
  if (!layout.codec.is_none()) spec.given.insert("codec");
  if (!layout.channel.is_none()) spec.given.insert("channel");
  if (has_chunks(plan)) spec.given.insert("chunks");
  if (plan.by_seconds) spec.layout.cuts = evaluation.cuts(plan), spec.given.insert("cuts");
  // Predictions are those of updates that do not wait for a norm.
  Json all{{"--batch", flags.batch}, {"--dtype", name_of(dtype)}, {"--clip", 0}};
  save_fields(spec, all);
  if (layout.width > 1) all["--reduction"] = name_of(found.reduction);
  if (plan.pruned > 0) all["--prune"] = plan.pruned, all["--samo"] = true;
  return all;
}

Json to_json(const Found& found, Evaluation& evaluation, const SearchFlags& flags, DType dtype) {
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
            {"chunks", layout.chunks},
            {"codec", print(layout.codec)},
            {"channel", print(layout.channel)},
            {"pruned", plan.pruned},
            {"extras", extras_of(plan)},
            {"side_by_side", plan.packing == Packing::stages ? "replicas" : "stages"},
            {"seconds", found.seconds},
            {"per_second", flags.batch / found.seconds},
            {"bytes", found.bytes},
            {"memory", bytes_by_kind(found.peak.level)},
            {"rank", found.peak.rank}};
  std::vector<int> ranks(plan.depth());
  std::iota(ranks.begin(), ranks.end(), 0);
  json["devices"] = Replicas{plan.packing, layout.width, plan.depth()}.devices(ranks);
  json["cuts"] = evaluation.cuts(plan);
  json["flags"] = flags_of(found, evaluation, flags, dtype);
  if (found.peak.cell >= 0) json["cell"] = print(found.peak.during);
  if (found.peak.saving > 0) json["saving"] = found.peak.saving;
  if (const double total = found.parts.total(); total > 0)
    for (const NamedPart& part : named_parts)
      json["shares"][part.key] = std::max(0.0, found.parts.*part.seconds / total);
  return json;
}

/// "gpipe, 8 x 8, 4 sequences, recompute"
std::string name_of_plan(const Json& plan) {
  std::string name =
      fmt::format("{}, {} x {}, {} a microbatch", plan["schedule"].get<std::string>(),
                  plan["depth"].get<int>(), plan["width"].get<int>(), plan["sequences"].get<int>());
  if (plan["recompute"]) name += ", recompute";
  if (plan["zero"] > 0) name += text(", ZeRO ", plan["zero"].get<int>());
  for (const Json& extra : plan["extras"]) name += ", " + extra.get<std::string>();
  return name;
}

/// "16.5 GB, 1.2 GB too much, on rank 7 in 7F7, most of it activations"
std::string excess_of(const Json& plan, double memory) {
  std::string line =
      fmt::format("{}, {} too much, on rank {}", bytes_text(plan["bytes"]),
                  bytes_text(plan["bytes"].get<double>() - memory), plan["rank"].get<int>());
  if (plan.value("saving", 0.0) == plan["bytes"]) return line + " while it saves a checkpoint";
  if (plan.contains("cell")) line += " in " + plan["cell"].get<std::string>();
  const auto most = std::max_element(plan["memory"].begin(), plan["memory"].end());
  return line + ", the largest part: " + most.key() + " (" + bytes_text(*most) + ")";
}

Json SearchFlags::run() const {
  SearchFlags flags = *this;
  const Search search = search_of(flags);
  const auto& [model, machine, settings, run, data] = search;
  Evaluation evaluation(model, machine, settings, run);
  const Space space{.schedules = schedules,
                    .codecs = codecs,
                    .channels = channels,
                    .pruned = prune,
                    .keep = rows};
  const int layers = static_cast<int>(model.layers.size());
  SearchResult result;
  {
    ProgressLine line;
    const auto show = [&](std::size_t done, std::size_t all) {
      line.show(fmt::format("{} of at most {}", done, counted(all, "plan")));
    };
    result = parallel::search(evaluation,
                              candidates(evaluation, layers, flags.devices, flags.batch, space),
                              machine.memory, space.keep, show);
  }
  Json json{{"model", flags.model},
            {"program", model.program},
            {"parameters", whole_parameters(model.layers).numel()},
            {"vocabulary", model.vocabulary},
            {"machine", machine.name},
            {"device", flags.device},
            {"devices", flags.devices},
            {"batch", flags.batch},
            {"dtype", name_of(settings.dtype)},
            {"memory", machine.memory},
            {"hosted", machine.topology.devices_per_host},
            {"candidates", result.candidates},
            {"refused", result.refused},
            {"simulated", result.simulated}};
  for (const auto& [name, value] : model.flags) json["shape"][name] = Json::parse(value);
  const auto row = [&](const Found& found) {
    return to_json(found, evaluation, flags, settings.dtype);
  };
  if (!costs.empty()) json["costs"] = costs;
  if (result.nearest) json["nearest"] = row(*result.nearest);
  const bool encodes =
      !std::ranges::count(codecs, CodecSpec()) || !std::ranges::count(channels, CodecSpec());
  PG_CHECK(result.candidates > 0, "no schedule divides --batch ", flags.batch, " over --devices ",
           flags.devices,
           encodes ? " and sends what these codecs encode (low-rank ones encode no "
                     "pruned sums); add none to --codec or --codec-channel"
                   : ": replicas and microbatches divide a batch, and a pipeline has two devices");
  PG_CHECK(!result.best.empty(), "no plan fits the ", bytes_text(machine.memory), " of ",
           flags.devices == 1 ? "one device" : fmt::format("each of {} devices", flags.devices),
           "; the nearest, ", name_of_plan(json["nearest"]), ", takes ",
           excess_of(json["nearest"], machine.memory));
  for (const Found& found : result.best) json["best"].push_back(row(found));
  if (Candidate dense = result.best[0].candidate; dense.pruned > 0) {
    dense.pruned = 0;
    json["dense_bytes"] = evaluation.simulated(dense).bytes;
  }
  json["command"] = command_of(model.program, {json["shape"], json["best"][0]["flags"]}) + data;
  return json;
}

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
  std::string row = fmt::format(
      "{:<3}{:>9.4g} {:>9} {:>9} {:>9} {:>5}  {:<15}{:<10}{:>4}  {:<9}{:>10}{:>10}"
      "{:>9}{:>6}{:>8}  {}",
      place, plan["per_second"].get<double>(), seconds_text(plan["seconds"]),
      bytes_text(plan["bytes"]),
      fmt::format("{} x {}", plan["depth"].get<int>(), plan["width"].get<int>()),
      plan["sequences"].get<int>(), plan["schedule"].get<std::string>(),
      plan["recompute"] ? "yes" : "no", plan["zero"].get<int>(),
      plan["side_by_side"].get<std::string>(), percent("compute"), percent("point_to_point"),
      percent("waiting"), percent("collective"), percent("update"),
      fmt::format("{}", fmt::join(plan["extras"].get<std::vector<std::string>>(), ", ")));
  return row.erase(row.find_last_not_of(' ') + 1) + '\n';
}

/// A sentence that names what takes most of the first plan's time beside computations.
///   hosted: devices of a host; 0: not known
std::string limit_of(const Json& plan, int hosted) {
  const Json& shares = plan["shares"];
  const std::pair<const char*, const char*> limits[] = {
      {"point_to_point", "messages between stages"},
      {"waiting", "waiting for other ranks' computations"},
      {"collective", "sums over replicas"},
      {"update", "updates"}};
  const auto most = std::ranges::max_element(
      limits, {}, [&](const auto& limit) { return shares.value(limit.first, 0.0); });
  if (shares.value(most->first, 0.0) < 0.01) return "The first plan computes all the time.\n";
  const int width = plan["width"], sharing = std::min(width, hosted);
  const bool shares_card = most == limits && sharing > 1 && plan["side_by_side"] == "replicas" &&
                           width * plan["depth"].get<int>() > hosted;
  return fmt::format(
      "The first plan computes {:.0f}% of the time; most of the rest, {:.0f}%, is {}{}.\n",
      100 * shares["compute"].get<double>(), 100 * shares.value(most->first, 0.0), most->second,
      shares_card ? fmt::format(": {} replicas of a stage share a host's links", sharing) : "");
}

/// The result of a search for people: a table, and sentences on its first line.
std::string search_words(const Json& found) {
  const Json& best = found["best"];
  const double count = found["parameters"];
  const bool is_large = count >= 1e8;
  std::string words = fmt::format(
      "{:.3g} {} parameters in {}, {} of {}, {} an update\n"
      "{}: {} simulated",
      count / (is_large ? 1e9 : 1e6), is_large ? "billion" : "million",
      found["dtype"].get<std::string>(), counted(found["devices"], "device"),
      found["machine"].get<std::string>(), counted(found["batch"], "example"),
      counted(found["candidates"], "plan"), found["simulated"].get<std::size_t>());
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
  words += "\nPlans that share a number take the same time, to 1%.\n" +
           limit_of(best[0], found["hosted"]);
  if (found.contains("nearest"))
    words += fmt::format("Nearest that does not fit: {}: {}.\n", name_of_plan(found["nearest"]),
                         excess_of(found["nearest"], found["memory"]));
  if (const double dense = found.value("dense_bytes", 0.0); dense > 0)
    words += fmt::format("Until a run has pruned, the first plan's fullest rank needs {}{}.\n",
                         bytes_text(dense),
                         dense > found["memory"] && found["memory"] > 0
                             ? ", more than a device has: resume a run that has pruned"
                             : "");
  words += "Run it: " + found["command"].get<std::string>() + "\n";
  if (found["vocabulary"] > 0 && !found.contains("costs"))
    words += text("Its vocabulary has ", found["vocabulary"],
                  " tokens: train on data that has as many (--vocab).\n");
  return words;
}

}  // namespace

Command search_command() {
  const auto search = std::make_shared<SearchFlags>();
  return {
      "search",
      "Finds the fastest plans for a model on a machine.",
      {{"Train a network of 2.2 billion parameters on 64 devices",
        "plan search --model 2bw-2.2b --machine v100-aws --devices 64 --batch 512"},
       {"Let each device keep 8 GB, and see 1F1B alone",
        "plan search --model 2bw-2.2b --machine v100-aws --devices 64 --batch 512 --memory 8e9 "
        "--schedule 1f1b"},
       {"Search with the times that a run has measured, and train the second plan",
        "plan search --machine laptop --costs runs/latest --json > search.json\n"
        "  train_gpt --plan-from search.json --row 2 --data my.txt"}},
      [=](Flags flags, PlanRequest& request) {
        search->add_flags(flags);
        CLI::App& command = flags;
        flags.group("Output");
        flags.yes("--json", request.json,
                  "print the plans as JSON; plan simulate takes its devices");
        const std::string columns = in_lines(
            "Columns: sequences, or images, per second; seconds of an update; bytes of the fullest "
            "rank; depth x width: stages x replicas of a pipeline; micro: sequences of a "
            "microbatch; on a host: whose ranks are neighbours, replicas of a stage or stages of a "
            "replica; shares of the time. \"cut by seconds\": stages take equal times, and not "
            "equal arithmetic.");
        command.footer(columns + "\n\n" + command.get_footer());
      },
      [=](const PlanRequest& request, const Flags&) {
        const Json found = search->run();
        request.json ? print_json(found) : print_text(search_words(found));
      }};
}

}  // namespace plangrad::examples
