// GptRun: the flags of train_gpt as values, checked, saved with a run and read back to resume it.
// Not here: what they do (examples/train_gpt.cpp).
// Chapter 02.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "examples/program.h"
#include "examples/schedule_flags.h"
#include "nn/checkpoint.h"
#include "nn/gpt.h"
#include "nn/text_data.h"
#include "parallel/training.h"
#include "parallel/verify.h"

namespace paragrad::examples {

using namespace paragrad::nn;

struct GptRun {
  GptConfig model{4, 4, 128, 64, 0, 0, true};  // its vocabulary comes with the data
  std::string vocabulary;
  std::filesystem::path data, validation, out = "out", resume;
  std::int64_t batch = 12;
  int steps = 2000, stop_after = 0, save_every = 0, evaluate_every = 250;
  std::int64_t warmup = -1;
  double learning_rate = 1e-3, lowest_rate = -1, weight_decay = 0.1, beta2 = 0.99, clip = 1;
  double timeout = 60;
  std::int64_t seed = 1337;
  bool untied = false, quiet = false;
  ScheduleFlags parts;  // how the work is laid out over ranks
  int ranks = 0;        // 0: as many as the parts say
  std::string device = "cpu", dtype = "f32", transport = "threads";

  /// Describes every flag to `app`.
  void add_flags(CLI::App& app);
  /// Parses a command line. With --resume, the flags of the saved run come first.
  /// throws: Error if a flag contradicts the saved run, or asks for what this build has not
  void parse(CLI::App& app, int argc, char** argv);

  /// Fits the parts to the number of ranks; `started` of them are there already (0: none).
  /// throws: Error if that can't be done
  void lay_out(int started);

  /// Text without --vocab is cut into characters.
  TextData load_data() const;
  parallel::Training training() const;
  /// The plan of steps [first, first + some).
  parallel::Plan plan(int first, int some) const;
  /// Sequences in a microbatch.
  std::int64_t rows() const { return batch / (parts.microbatches * parts.data_parallel); }
  /// Microbatches whose gradients make one update. PipeDream updates after every one.
  int per_step() const;
  /// Updates that a plan of the user's own makes; 0: there is none.
  int steps_of_plan() const { return own_plan_ ? own_plan_->steps : 0; }
  /// The model, and the flags that decide the run with their values.
  nlohmann::json to_json() const { return {{"model", nn::to_json(model)}, {"flags", flags_}}; }

 private:
  void resume_flags(CLI::App& app, std::vector<std::string> own);
  void check() const;
  void check_memory() const;

  nlohmann::json flags_;
  bool width_given_ = false, layout_given_ = false;
  std::optional<parallel::Plan> own_plan_;  // from --plan
};

inline void GptRun::add_flags(CLI::App& app) {
  Flags flags(app);
  constexpr std::int64_t zero = 0, one = 1;
  constexpr int none = 0;
  constexpr double large = 1e30, tiny = 1e-30;

  flags.group("Model");
  flags.whole("--layers", model.layers, 1, "blocks");
  flags.whole("--heads", model.heads, 1, "attention heads");
  flags.whole("--width", model.width, 1, "channels, a multiple of the heads");
  flags.whole("--context", model.context, 1, "tokens that a prediction looks back on");
  flags.number("--dropout", model.dropout, 0, 0.99, "share of activations dropped in training");
  flags.yes("--untied", untied, "a head with a table of its own, instead of the embedding's");
  flags.words("--vocab", vocabulary, "NAME",
              "chars, bytes, or a vocab.json with merges.txt beside it (default: chars for text)");

  flags.group("Data");
  flags.words("--data", data, "FILE", "plain text, or token ids as headerless uint16 (.bin)");
  flags.words("--validation", validation, "FILE",
              "the same, to validate on (default: the last tenth of --data)");

  flags.group("Run");
  flags.whole("--steps", steps, 1, "updates");
  flags.whole("--batch", batch, one, "sequences an update");
  flags.number("--learning-rate", learning_rate, tiny, large, "highest rate");
  flags
      .number("--min-learning-rate", lowest_rate, 0, large,
              "rate at the end (default: a tenth of the highest)")
      ->default_str("");
  flags
      .whole("--warmup", warmup, zero,
             "updates until the highest rate (default: 100, or a tenth of --steps if that is less)")
      ->default_str("");
  flags.number("--weight-decay", weight_decay, 0, large, "AdamW's, of matrices");
  flags.number("--beta2", beta2, 0, 0.999999,
               "AdamW's memory of squared gradients; 0.95 suits large batches");
  flags.number("--clip", clip, 0, large, "largest norm of the gradient; 0: any");
  flags.whole("--seed", seed, zero, "of first weights, data order and dropout");
  flags.words("--out", out, "DIR", "folder to write to (default: out, or the one resumed)");
  flags.words("--resume", resume, "DIR", "continue the run in this folder, with its flags");
  flags.whole("--save-every", save_every, none, "updates between checkpoints; 0: only at the end");
  flags.whole("--stop-after", stop_after, none,
              "save and stop after so many updates of --steps; 0: go on");
  flags.whole("--evaluate-every", evaluate_every, none,
              "updates between validations; 0: only at the end");
  flags.yes("--quiet", quiet, "print errors only");

  parts.add_flags(flags);
  flags.whole("--ranks", ranks, 1, "workers (default: as the parts need)")->default_str("");
  flags.words("--plan", parts.plan_file, "FILE",
              "run this plan, over and over, instead of a schedule");

  flags.group("Machine");
  flags.choice("--device", device, {"cpu", "cuda", "emulator"}, "this build has cpu");
  flags.choice("--dtype", dtype, {"f32", "bf16"}, "of weights and activations");
  flags.choice("--transport", transport, {"threads", "mpi", "nccl"},
               "threads of this process, or processes that mpirun starts");
  flags.number("--timeout", timeout, tiny, large, "seconds that a rank waits for another");
}

/// Parses a list of arguments, in place of those parsed before.
inline void parse_list(CLI::App& app, std::vector<std::string> arguments) {
  std::reverse(arguments.begin(), arguments.end());  // the order that CLI11 wants
  app.parse(arguments);
}

/// The value of every flag that decides a run, given or not.
inline nlohmann::json run_flags(const CLI::App& app) {
  static const std::set<std::string> of_one_session{"--help",       "--out",   "--resume",
                                                    "--stop-after", "--quiet", "--timeout"};
  nlohmann::json flags;
  for (const CLI::Option* option : app.get_options()) {
    std::string name = option->get_name(), type = option->get_type_name();
    bool given = option->count() > 0, valued = option->get_expected_max() > 0;
    std::string value = given ? option->results().back() : option->get_default_str();
    if (of_one_session.contains(name) || (valued && value.empty())) continue;
    if (!valued) {
      flags[name] = given && option->as<bool>();
    } else if (type == "N") {
      flags[name] = option->as<std::int64_t>();
    } else if (type == "X") {
      flags[name] = option->as<double>();
    } else {
      flags[name] = value;
    }
  }
  return flags;
}

/// Flags that lay a run out; one of them, given to resume a run, replaces all of the saved ones.
inline constexpr const char* layout_flags[] = {"--schedule", "--stages", "--data-parallel",
                                               "--ranks"};

inline void GptRun::parse(CLI::App& app, int argc, char** argv) {
  std::vector<std::string> own(argv + 1, argv + argc);
  parse_list(app, own);
  if (!resume.empty()) resume_flags(app, own);
  flags_ = run_flags(app);
  width_given_ = app.count("--data-parallel") > 0;
  for (const char* name :
       {"--schedule", "--stages", "--data-parallel", "--microbatches", "--recompute"})
    layout_given_ = layout_given_ || app.count(name) > 0;
  check();
  // A run can be resumed from another folder.
  flags_["--data"] = std::filesystem::absolute(data).string();
  if (!validation.empty()) flags_["--validation"] = std::filesystem::absolute(validation).string();
}

/// Parses the saved flags and then `own`, which win where the saved weights allow it.
inline void GptRun::resume_flags(CLI::App& app, std::vector<std::string> own) {
  std::filesystem::path folder = resume;
  bool moved = app.count("--out") > 0, new_layout = app.count("--plan") > 0;
  for (const char* name : layout_flags) new_layout = new_layout || app.count(name) > 0;
  const nlohmann::json run = Checkpoint(folder / "checkpoint").run();
  PG_CHECK(run.contains("flags") && run["flags"].is_object(), "--resume ", folder.string(),
           ": its checkpoint is not of train_gpt");
  const nlohmann::json& saved = run["flags"];
  std::vector<std::string> all;
  std::set<std::string> skipped;
  if (new_layout) skipped = {std::begin(layout_flags), std::end(layout_flags)};
  if (new_layout) skipped.insert("--plan");
  if (app.count("--plan") > 0) skipped.insert({"--microbatches", "--recompute"});
  for (const auto& [name, value] : saved.items())
    if (!skipped.contains(name))
      all.push_back(text(name, '=', value.is_string() ? value.get<std::string>() : value.dump()));
  all.insert(all.end(), own.begin(), own.end());
  parse_list(app, all);
  nlohmann::json now = run_flags(app);
  for (const char* name : {"--layers", "--heads", "--width", "--context", "--dropout", "--untied",
                           "--batch", "--seed", "--dtype"})
    PG_CHECK(now[name] == saved.value(name, nlohmann::json()), "--resume: the run began with ",
             name, ' ', saved.value(name, nlohmann::json()), ", not ", now[name],
             "; leave this flag out, or start a new run");
  if (!moved) out = folder;
}

inline void GptRun::check() const {
  PG_CHECK(parts.plan_file.empty() || !layout_given_,
           "give --plan or the other flags of a schedule, not both");
  PG_CHECK(!data.empty(), "--data FILE is needed: a text to train on");
  PG_CHECK(device == "cpu", "--device ", device, ": this build has no such device; use cpu");
  PG_CHECK(transport != "nccl", "--transport nccl: this build has no GPUs; use threads or mpi");
  PG_CHECK(lowest_rate <= learning_rate, "--min-learning-rate ", lowest_rate,
           " is above --learning-rate ", learning_rate);
  PG_CHECK(warmup <= steps, "--warmup ", warmup, " is longer than the run of ", steps, " --steps");
  GptConfig config = model;
  config.vocabulary = 1;  // not known before the data
  config.check();
  check_memory();
}

/// Refuses what can't fit before anything is written; chapter 03 explains the sums.
inline void GptRun::check_memory() const {
  double width = model.width, layers = model.layers, context = model.context;
  double parameters = layers * 12 * width * width;
  double all = static_cast<double>(batch) / parts.microbatches / parts.data_parallel;
  double rows = all * context * (parts.recompute ? 1 : 16);
  double bytes = 16 * parameters + (dtype == "bf16" ? 2 : 4) * rows * width * layers;
  double machine =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
  PG_CHECK(bytes < machine, "this run needs at least ", bytes / 1e9,
           " GB of memory, the machine has ", machine / 1e9,
           "; use fewer --layers, a smaller --width, --context or --batch, or more ",
           "--microbatches");
}

inline TextData GptRun::load_data() const {
  bool cut_into_characters = vocabulary.empty() && data.extension() != ".bin";
  return load_text_data(data, validation, cut_into_characters ? "chars" : vocabulary);
}

inline void GptRun::lay_out(int started) {
  if (!parts.plan_file.empty()) {
    own_plan_ = read_plan(parts.plan_file);
    parallel::verify(*own_plan_);
    int delay = *std::max_element(own_plan_->keep.begin(), own_plan_->keep.end()) - 1;
    PG_CHECK(own_plan_->steps > 0, "--plan ", parts.plan_file, " makes no updates");
    PG_CHECK(
        own_plan_->first >= delay || own_plan_->steps == steps, "--plan ", parts.plan_file,
        " reads older weights, but at its beginning as a run's beginning does, so it can't be ",
        "repeated; make it for later steps: plan show ... --first ", delay);
    parts.stages = own_plan_->stages;
    parts.microbatches = own_plan_->per_step;
    parts.data_parallel = 1;
  }
  if (parts.schedule.empty()) parts.schedule = parts.stages > 1 ? "1f1b" : "data";
  // In data parallelism a rank holds all stages.
  int depth = parts.schedule == "data" ? 1 : parts.stages;
  int wanted = own_plan_ ? own_plan_->ranks() : depth * parts.data_parallel;
  int total = started > 0 ? started : ranks > 0 ? ranks : wanted;
  PG_CHECK(ranks == 0 || ranks == total, "--ranks ", ranks, ": ", total, " were started");
  if (!own_plan_ && !width_given_ && total % depth == 0) {
    parts.data_parallel = total / depth;
    wanted = total;
  }
  PG_CHECK(wanted == total, total, " ranks: the schedule ", parts.schedule, " with --stages ",
           parts.stages, " and --data-parallel ", parts.data_parallel, " needs ", wanted);
  ranks = total;
  // A resumed run has the layout that was found, unless it is told another.
  if (own_plan_) {
    flags_["--plan"] = std::filesystem::absolute(parts.plan_file).string();
    for (const char* name : {"--stages", "--data-parallel", "--microbatches", "--recompute"})
      flags_.erase(name);
  } else {
    flags_["--schedule"] = parts.schedule;
    flags_["--data-parallel"] = parts.data_parallel;
  }
  flags_.erase("--ranks");
  int pieces = parts.microbatches * parts.data_parallel;
  PG_CHECK(batch % pieces == 0, "--batch ", batch, " does not divide into ", pieces,
           " microbatches (--microbatches ", parts.microbatches, " x ", parts.data_parallel,
           " replicas)");
}

inline int GptRun::per_step() const {
  if (own_plan_) return own_plan_->per_step;
  return parts.data_parallel * (parts.schedule == "pipedream" ? 1 : parts.microbatches);
}

inline parallel::Plan GptRun::plan(int first, int some) const {
  if (own_plan_) return parallel::moved_by(*own_plan_, first - own_plan_->first);
  parallel::Layout layout = parts.layout();
  if (parts.schedule == "pipedream") layout.microbatches = 1;  // which is an update of its own
  layout.steps = some;
  layout.first = first;
  layout.recompute = parts.recompute && parts.stages > 1;
  layout.clip = clip > 0;
  layout.tied = model.tied && parts.stages > 1;
  return parallel::make_plan(parts.schedule, layout);
}

inline parallel::Training GptRun::training() const {
  parallel::Training training(gpt(model), parts.stages);
  training.dtype = dtype == "bf16" ? DType::bf16 : DType::f32;
  training.seed = static_cast<std::uint64_t>(seed);
  double lowest = lowest_rate < 0 ? learning_rate / 10 : lowest_rate;
  std::int64_t rise = warmup < 0 ? std::min<std::int64_t>(100, steps / 10) : warmup;
  training.learning_rate = {learning_rate, lowest, rise, steps};
  training.optimizer = [decay = weight_decay, beta = beta2](const ParameterList& parameters,
                                                            const Tensor& weights) {
    return make_adamw(parameters, weights, decay, 0.9, beta);
  };
  training.clip = clip;
  training.recompute_layers = parts.recompute && parts.stages == 1;
  return training;
}

}  // namespace paragrad::examples
