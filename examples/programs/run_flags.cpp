// Parses the flags that training programs share; a resumed run's saved flags are parsed first.
// Not here: the flags of a program's model and data. Chapter 02.
#include "examples/programs/run_flags.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <fstream>

#include "examples/programs/plan_words.h"
#include "examples/programs/rank_device.h"
#include "nn/checkpoint/checkpoint.h"
#include "nn/text/vocabulary.h"
#include "parallel/drawing/figure.h"
#include "parallel/engine/training.h"
#include "parallel/session/agreement.h"
#include "parallel/transports/launch.h"

namespace plangrad::examples {

void RunFlags::add_length_flags(Flags& flags, const char* rate) {
  flags.group("Run");
  flags.whole("--steps", steps, 1, "updates of the whole run");
  flags.whole("--batch", batch, 1, text(examples, " per update").c_str());
  flags.number("--learning-rate", learning_rate, limits::tiny, limits::large, rate);
  flags.number("--min-learning-rate", lowest_rate, 0, limits::large,
               "learning rate at the end (default: 1/10 of the highest)");
  flags.whole("--warmup", warmup, 0,
              "updates until the highest rate (default: 100, or 1/10 of --steps if that is less)");
}

void RunFlags::add_run_flags(Flags& flags) {
  flags.number("--clip", clip, 0, limits::large, "largest norm of the gradient; 0: no limit");
  flags.whole("--seed", seed, 0, "seed of initial weights, data order and dropout");
  flags.words("--out", out, "DIR",
              "output folder (default: runs/DATE-TIME-SCHEDULE, or the run being resumed)");
  flags.yes("--overwrite", overwrite,
            "replace what --out holds: another run, which stays until the first save, or files "
            "with the names of a run's");
  flags.words("--resume", resume, "DIR",
              "continue the run in this folder with its saved flags; --schedule, --stages, "
              "--data-parallel, --ranks or --plan discards the saved layout");
  flags.whole(
      "--at", at, 0,
      "the update to continue from, of those that checkpoint list names; later ones go with "
      "the first save (default: the newest that is intact)");
  flags.whole("--save-every", save_every, 0,
              "updates between checkpoints; 0: none but by time, and at the end");
  flags.number("--save-minutes", save_minutes, 0, 1e6,
               "minutes after a checkpoint until the next one; 0: none by time");
  flags.whole("--keep", keep, 1,
              "checkpoints that stay: if the newest is damaged, --resume takes the one before");
  flags.whole("--stop-after", stop_after, 0,
              "save and stop after this many of the --steps updates; 0: run to the end");
  flags.whole("--evaluate-every", evaluate_every, 0,
              "updates between validations; 0: only at the end");
  flags.whole("--check", check_every, 0,
              "updates between searches for silent errors: ranks compute the same, and compare it "
              "bit for bit; 0: none");
  flags.yes("--quiet", quiet, "print errors and warnings only");
  flags.yes(
      "--profile", profile,
      "time each kernel of the updates, beside what products and memory allow (--device cpu)");
  add_layout_flags(flags);
  add_machine_flags(flags);
  pretend.add_flags(flags);
  flags.group("Loss");
  flags.yes("--elastic", elastic,
            "go on without a rank that is lost, by a plan for those that are left; ranks that come "
            "back join at the next border (threads; for processes, see the program elastic)");
  flags
      .words("--lose", lose, "LIST",
             "lose ranks on purpose: RANK@UPDATE,..., or RANK@UPDATE-BACK for one that is back "
             "after update BACK")
      .check(parse_losses);
  flags.words("--note", note, "TEXT",
              "a line for the metrics and the report; the program elastic tells of losses so");
}

void RunFlags::add_layout_flags(Flags& flags) {
  parts.add_flags(flags);
  flags.whole("--ranks", ranks, 1, "workers (default: as many as the layout needs)",
              parallel::most_ranks);
  flags.words(
      "--plan", parts.plan_file, "FILE",
      "repeat the plan in this file instead of using a schedule; of a plan with bars, its body");
  flags.words("--plan-from", plan_from, "FILE",
              "train a plan that plan search --json found for this model, with its batch and type; "
              "flags that are given, too, change it");
  flags.whole("--row", row, 1, "which of its plans: 1 is the fastest");
  prune.add_flags(flags);
}

void RunFlags::add_machine_flags(Flags& flags) {
  flags.group("Machine");
  add_device_flag(flags, device);
  flags.yes("--cuda-graph", cuda_graph,
            "launch each forward, backward and update as one CUDA graph; speed not yet measured");
  flags.choice(
      "--dtype", dtype, {"f32", "tf32", "bf16"},
      "type of weights and activations (default: bf16 with --device cuda, else f32); tf32: "
      "f32, whose products a GPU's tensor cores round to 10 bits");
  std::vector<std::string> ways{"auto"};
  for (const auto& [name, how] : parallel::reductions()) ways.push_back(name);
  ways.push_back("nccl");
  flags.choice("--reduction", reduction, ways,
               "how a group of ranks sums gradients; scatter: in two rounds, or one for up to 1 MB "
               "of two ranks; nccl: by NCCL's own collectives; auto: nccl with --transport nccl, "
               "without a codec; else scatter");
  flags.whole("--ranks-per-host", ranks_per_host, 1,
              "ranks per host for --reduction hierarchical (default: group by host name) and "
              "--pretend-cards");
  flags.choice("--transport", transport, {"threads", "mpi", "nccl"},
               "ranks are threads of this process, or processes started by mpirun; nccl: either, "
               "with messages from GPU to GPU");
  flags.whole("--memory-cap", memory_cap, 0,
              "bytes that a rank may hold in total; 0: with --device cpu, its share of what the "
              "host has left, else any number");
  flags.number("--timeout", timeout, limits::tiny, limits::large,
               "seconds without any progress after which a rank gives up waiting for another");
}

namespace {

/// Parses a list of arguments; they replace those that were parsed before.
void parse_list(CLI::App& app, std::vector<std::string> arguments) {
  std::reverse(arguments.begin(), arguments.end());  // CLI11 takes a vector's last element first
  app.parse(arguments);
}

/// Flags that a checkpoint neither keeps nor sets.
const std::set<std::string> of_one_session{
    "-h",           "--help",       "--version", "--out",     "--overwrite",  "--resume",
    "--at",         "--plan-from",  "--row",     "--quiet",   "--stop-after", "--timeout",
    "--memory-cap", "--cuda-graph", "--profile", "--elastic", "--lose",       "--note"};

/// Returns the value of every flag that affects the run's result, given or not.
nlohmann::json flag_values(const CLI::App& app) {
  nlohmann::json flags;
  for (const CLI::Option* option : app.get_options()) {
    std::string name = option->get_name(), type = option->get_type_name();
    bool given = option->count() > 0, valued = option->get_expected_max() > 0;
    std::string value = given ? option->results().back() : option->get_default_str();
    if (of_one_session.contains(name) || (valued && value.empty())) continue;
    if (!valued)
      flags[name] = given && option->as<bool>();
    else if (type == "N")
      flags[name] = option->as<std::int64_t>();
    else if (type == "X")
      flags[name] = option->as<double>();
    else
      flags[name] = value;
  }
  return flags;
}

}  // namespace

void RunFlags::parse(CLI::App& app, Words own, const std::vector<std::string>& fixed) {
  for (const std::string& word : own)
    if (nn::valid_utf8_prefix(word) < word.size())
      throw UsageError(text("the word ", word, " is not UTF-8, in which checkpoints and reports ",
                            "keep it; rename the file or folder, or make a link to it"));
  parse_list(app, own);
  if (!plan_from.empty()) {
    const std::vector<std::string> planned = planned_words(app);
    own.insert(own.begin(), planned.begin(), planned.end());
    parse_list(app, own);
  }
  for (const CLI::Option* option : app.get_options())
    if (option->count() > 0) typed.insert(option->get_name());
  PG_CHECK(row == 1 || !plan_from.empty(), "--row says which plan of --plan-from FILE is trained; ",
           "give that, too");
  PG_CHECK(at < 0 || !resume.empty(), "--at says from which update --resume DIR continues; give ",
           "that, too");
  if (!resume.empty()) resume_flags(app, own, fixed);
  saved = flag_values(app);
  if (dtype.empty()) saved["--dtype"] = text(type());
  if (prune.given()) {  // save the defaults that follow from this run's length
    const sparse::PruneSettings found = prune.settings(steps, 0);
    saved["--prune-after"] = found.after;
    if (!prune.once()) saved["--prune-every"] = found.every;
    if (prune.method == "gradual") saved["--prune-until"] = found.until;
  }
}

/// The words of the row of --plan-from.
/// throws: Error if the command line asks for another model than the row's
std::vector<std::string> RunFlags::planned_words(const CLI::App& app) {
  auto [words, layout, vocabulary] = row_words(plan_from, row, program);
  planned_vocabulary = vocabulary;
  for (const std::string& word : words) {
    const std::size_t end = word.find('=');
    const std::string name = word.substr(0, end), value = word.substr(end + 1);
    const bool is_other = app.count(name) > 0 && app[name]->results().back() != value;
    PG_CHECK(!is_other, name, ' ', app[name]->results().back(), ": the model of --plan-from ",
             plan_from.string(), " has ", name, ' ', value, "; leave out one of the two");
  }
  words.insert(words.end(), layout.begin(), layout.end());
  return words;
}

/// Names the saved flags that this command line overrides: those of a layout, if a flag asks for
/// another one. What any layout may have stays, unless a plan says it.
static std::set<std::string> replaced_flags(const CLI::App& app, const ScheduleFlags& own) {
  auto given = [&](const char* name) { return app.count(name) > 0; };
  std::set<std::string> replaced;
  const auto asks = {"--schedule", "--stages", "--data-parallel", "--ranks", "--plan"};
  if (std::ranges::any_of(asks, given)) {
    replaced = {"--ranks", "--plan"};
    const std::set<std::string> of_any{"microbatches", "recompute", "codec", "channel"};
    for (const parallel::SpecField* field : parallel::spec_fields())
      if (!field->of_plans && (given("--plan") || !of_any.contains(field->name)))
        replaced.insert(field->flag_name());
  }
  if (own.cyclic()) replaced.insert("--microbatches");  // follow from its stages
  if (given("--setting")) replaced.insert("--gap");     // not all settings have turns
  return replaced;
}

/// Opens what the run continues from, once for all ranks of this process.
void RunFlags::open_checkpoint(const std::filesystem::path& folder, bool moved, bool leads) {
  const nn::IntactCheckpoint found = nn::find_intact(folder / "checkpoint", at);
  const std::filesystem::path lines = folder / "metrics.jsonl";  // the run goes on from them, too
  if (std::filesystem::exists(lines)) nn::check_regular(lines);
  if (!found.news.empty() && leads) tell(found.news);
  resumed = std::make_shared<nn::OpenedCheckpoint>(found.checkpoint);
  if (moved || found.manifest == nn::manifest_name) return;
  try {
    given_up = nn::read_manifest(folder / "checkpoint", nn::manifest_name).step;
  } catch (const autograd::Error&) {  // it is damaged, and any save may replace it
  }
  if (at >= 0 && leads)
    tell(text("note: the first save takes the place of later updates in ", folder.string(),
              "; they stay if you name another --out"));
}

/// Parses the saved flags and then `own`, which override them where the saved weights allow it.
void RunFlags::resume_flags(CLI::App& app, const std::vector<std::string>& own,
                            const std::vector<std::string>& fixed) try {
  const std::filesystem::path folder = resume = run_of(resume);
  std::error_code ignored;
  const bool moved = app.count("--out") > 0 && !std::filesystem::equivalent(out, folder, ignored);
  const auto started = parallel::rank_environment();
  const bool leads = !started || started->rank == 0;
  if (!moved && leads && std::filesystem::exists(folder / "checkpoint", ignored))
    lock = std::make_shared<parallel::FolderLock>(folder);  // before anything is read there
  open_checkpoint(folder, moved, leads);
  const nlohmann::json& run = resumed_run();
  PG_CHECK(
      run.contains("flags") && run["flags"].is_object() && run.value("program", program) == program,
      "--resume ", folder.string(), ": its checkpoint was not written by ", program);
  const nlohmann::json& before = run["flags"];
  const std::set<std::string> replaced = replaced_flags(app, parts);
  std::vector<std::string> all;
  std::string named;
  std::vector<std::string> same = fixed;
  const bool is_pruned = before.value("--prune", nlohmann::json()) > 0;
  if (is_pruned) same.insert(same.end(), PruneFlags::fixed().begin(), PruneFlags::fixed().end());
  const std::set<std::string> files{"--data", "--validation", "--vocab", "--plan"};
  for (const auto& [name, value] : before.items()) {
    PG_CHECK(name.starts_with("--") && app.get_option_no_throw(name), "--resume ", folder.string(),
             ": its checkpoint is damaged: ", name, " is no flag that this version saves; use the ",
             "plangrad that wrote it, or go back with --at");
    const std::string type = app[name]->get_type_name(), word = parallel::text_of(value);
    PG_CHECK((type != "N" && type != "X") || value.is_number(), "--resume ", folder.string(),
             ": its checkpoint is damaged: it says ", name, ' ', value.dump(),
             ", expected a number; go back with --at");
    if (replaced.contains(name) || of_one_session.contains(name) || typed.contains(name)) continue;
    if (word.empty()) continue;  // else the flag would take the next one as its value
    from_checkpoint[name] = std::ranges::find(same, name) == same.end();
    all.push_back(text(name, '=', word));
    if (!files.contains(name) || !value.is_string() || word == "chars" || word == "bytes") continue;
    saved_files.insert(name);
    named += text(' ', name, ' ', word);
  }
  if (!named.empty() && leads)  // the checkpoint may be a stranger's
    tell("the checkpoint names files to read:" + named + "; give these flags to read others");
  all.insert(all.end(), own.begin(), own.end());
  parse_list(app, all);
  resume = folder;
  const nlohmann::json now = flag_values(app);
  auto value = [](const nlohmann::json& flags, const std::string& name) {
    const nlohmann::json found = flags.value(name, nlohmann::json());
    return found == "tf32" ? "f32" : found;  // the same state
  };
  if (!is_pruned && prune.given())
    prune.check_begins(static_cast<int>(resumed->manifest().step), steps);
  for (const std::string& name : same)
    PG_CHECK(value(now, name) == value(before, name), "--resume: the run began with ", name, ' ',
             value(before, name), ", not ", value(now, name),
             "; leave this flag out, or start a new run");
  if (!moved) out = folder;
} catch (const nlohmann::json::exception&) {
  throw autograd::Error(text("--resume ", resume.string(), ": its checkpoint is damaged: a flag ",
                             "that it saved has a value that no run has"));
} catch (const CLI::ParseError& error) {  // of a saved flag, as `own` alone was parsed before
  throw autograd::Error(error.what());
}

std::string RunFlags::with_origin(std::string what) const {
  std::string words = what.substr(0, what.find(';'));  // the remedy behind it names flags, too
  for (char& c : words) c = std::isalnum(static_cast<unsigned char>(c)) || c == '-' ? c : ' ';
  std::istringstream in(words);
  std::map<bool, std::set<std::string>> names;  // by whether the run can change them
  for (std::string word; in >> word;)
    if (const auto saved = from_checkpoint.find(word); saved != from_checkpoint.end())
      names[saved->second].insert(word);
  if (names.empty()) return what;
  const auto& [can_change, all] = *names.rbegin();
  return what.insert(
      std::min(what.find('\n'), what.size()),
      fmt::format("; the checkpoint {} says {}{}", (resume / "checkpoint").string(),
                  fmt::join(all, ", "),
                  can_change ? ": give that anew here" : ", which --resume can't change"));
}

void RunFlags::check() const {
  PG_CHECK(parts.plan_file.empty() || !parts.any_given(),
           "give --plan or the other flags of a schedule, not both; a plan's first line says how ",
           "its messages are encoded, too: make it with plan show ... --codec NAME");
  check_smaller("--codec", parts.layout.codec, autograd::DType::f32);
  check_smaller("--codec-channel", parts.layout.channel, type());
  device_kind(device);  // throws if this build lacks it
  PG_CHECK(transport != "nccl" || device != "cpu", "--transport nccl: NCCL moves the memory of ",
           "GPUs; use --device cuda or emulator with it, or --transport threads or mpi");
  PG_CHECK(reduction != "nccl" || transport == "nccl", "--reduction nccl: NCCL sums up what it ",
           "carries; use it with --transport nccl, or use --reduction scatter");
  PG_CHECK(dtype != "tf32" || device != "cpu", "--dtype tf32: the CPU has no such products; use ",
           "--device cuda or emulator with it, or --dtype f32");
  PG_CHECK(!cuda_graph || device != "cpu",
           "--cuda-graph: the CPU has no CUDA graphs; use --device ",
           "cuda or emulator with it, or leave it out");
  PG_CHECK(!profile || device == "cpu", "--profile: times kernels of --device cpu; ",
           device == "emulator" ? "the emulator's times say nothing of a GPU's"
                                : "a GPU's kernels run on after their launch, so use nsys profile",
           ", or leave it out");
  PG_CHECK(lowest_rate <= learning_rate, "--min-learning-rate ", lowest_rate,
           " is above --learning-rate ", learning_rate);
  pretend.check(device, transport, ranks_per_host);
  PG_CHECK(!elastic || transport != "nccl", "--elastic: NCCL joins a fixed number of ranks, and ",
           "can't go on without one; leave out --transport nccl, or --elastic");
  PG_CHECK(!elastic || transport == "threads", "--elastic: ranks that are processes end together; ",
           "start them by the program elastic, which starts those that are left again, or leave ",
           "out --transport ", transport);
  PG_CHECK(!elastic || parts.plan_file.empty(), "--elastic: a plan of your own is for its ranks; ",
           "leave out --plan, or --elastic");
  PG_CHECK(!elastic || attempt.number > 0 || stop_after == 0, "--elastic: leave out --stop-after; ",
           "the run stops by itself where ranks come back");
  prune.check(parts.layout.codec, parts.plan_file, steps);
  PG_CHECK(warmup <= steps, "--warmup ", warmup, " is longer than the run of ", steps, " --steps");
}

nn::LearningRate RunFlags::rate() const {
  const double lowest = lowest_rate < 0 ? learning_rate / 10 : lowest_rate;
  return {learning_rate, lowest, warmup < 0 ? std::min(100, steps / 10) : warmup, steps};
}

std::string RunFlags::other_rate() const {
  if (!resumed) return "";
  const nlohmann::json& before = resumed_run().at("flags");
  RunFlags old;
  old.steps = before.value("--steps", steps);
  old.learning_rate = before.value("--learning-rate", learning_rate);
  old.lowest_rate = before.value("--min-learning-rate", -1.0);
  old.warmup = before.value("--warmup", std::int64_t{-1});
  std::string why;
  for (const char* name : {"--steps", "--learning-rate", "--min-learning-rate", "--warmup"})
    if (const auto was = before.find(name), is = saved.find(name);
        is != saved.end() && (was == before.end() || *was != *is))
      why += text(why.empty() ? "" : ", ", name, ' ', is->dump(), " instead of ",
                  was == before.end() ? "its default" : was->dump());
  const std::int64_t first = resumed->manifest().step;
  for (std::int64_t step = first; step < steps; step += 1 + (steps - first) / 1000)
    if (const double is = rate().at(step), was = old.rate().at(step); is != was)
      return text("the learning rate leaves its course: ", is, " in update ", step + 1,
                  " instead of ", was, ", by ", why, "; ");
  return "";
}

std::int64_t RunFlags::cap(int ranks_here) const {
  if (memory_cap > 0 || device != "cpu") return memory_cap;
  std::ifstream file("/proc/meminfo");
  std::int64_t left = 0, kilobytes = 0;
  for (std::string name; file >> name >> kilobytes; std::getline(file, name))
    if (name == "MemAvailable:" || name == "SwapFree:") left += 1024 * kilobytes;
  return left / ranks_here;
}

void RunFlags::check_memory(double bytes, const std::string& remedies) const {
  double machine =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
  PG_CHECK(bytes < machine, "this run needs at least ", parallel::bytes_text(bytes),
           " of memory, the machine has ", parallel::bytes_text(machine), "; use ", remedies);
}

}  // namespace plangrad::examples
