// ScheduleFlags: a plan as a command line asks for it: by a schedule's name and sizes, or as the
// text file that holds it. Not here: the schedules (parallel/schedules/).
// Chapter 06.
#pragma once

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <vector>

#include "examples/program.h"
#include "nn/checkpoint/file.h"
#include "parallel/schedules/schedule.h"

namespace paragrad::examples {

struct ScheduleFlags {
  std::string schedule, setting;                        ///< empty: not given
  int stages = 0, data_parallel = 0, microbatches = 0;  ///< 0: not given
  int zero = 0;
  int gap = 0, in_flight = 0;  ///< 0: not given
  bool recompute = false;
  std::string codec, channel;  ///< empty: not given
  std::string plan_file;       ///< instead of the others; "-" is standard input, empty: not given

  /// All but the plan's file, which each program asks for in its own way.
  void add_flags(Flags& flags);
  bool given() const;
  bool cyclic() const { return parallel::is_cyclic(schedule); }
  std::string setting_found() const { return setting.empty() ? "data" : setting; }
  /// The schedule, and its setting if it has any.
  std::string title() const {
    return cyclic() ? text(schedule, " (", setting_found(), ")") : schedule;
  }

  parallel::CodecSpec codec_found() const {
    return parallel::parse_codec(codec.empty() ? "none" : codec);
  }

  parallel::CodecSpec channel_found() const {
    return parallel::parse_codec(channel.empty() ? "none" : channel);
  }

  /// Whether microbatches wait for turns, which --gap is about.
  bool has_turns() const {
    return cyclic() && (setting_found() == "data" || setting_found() == "zero");
  }

  /// Of one step, the run's first; what was not given has its default.
  /// throws: Error if the flags contradict each other
  parallel::Layout layout() const;

  /// Examples of a batch in a microbatch, or fewer where only the number of ranks will tell.
  double smallest_share(std::int64_t batch, int ranks) const;

  /// Finds what was not given from the number of ranks, if that is known (0: it is not).
  /// throws: Error if no layout has so many
  void fit(int ranks);

 private:
  void check_cyclic() const;
  int stages_on(int ranks) const;
};

inline void ScheduleFlags::add_flags(Flags& flags) {
  auto names_of = [](const auto& table) {
    std::vector<std::string> names;
    for (const auto& [name, value] : table) names.push_back(name);
    return names;
  };
  flags.group("Schedule");
  flags.choice("--schedule", schedule, names_of(parallel::schedules()),
               "order of the work, and the weights that it reads");
  flags.whole("--stages", stages, 1, "parts that the model is cut into")->default_str("1");
  flags.whole("--data-parallel", data_parallel, 1, "replicas of the model")->default_str("1");
  flags
      .whole("--microbatches", microbatches, 1,
             "parts of a replica's batch; in a cyclic schedule always as many as stages")
      ->default_str("1");
  flags.yes("--recompute", recompute, "drop activations and compute them again; saves memory");
  flags.choice("--setting", setting, names_of(parallel::settings()),
               "where a cyclic schedule's microbatches run (default: data)");
  flags
      .whole("--gap", gap, 1,
             "stages that a cyclic schedule's microbatch is ahead of the next, in data and zero "
             "(default: 2; "
             "in training 3, as backwards take about twice as long as forwards)")
      ->default_str("");
  flags
      .whole("--in-flight", in_flight, 1,
             "microbatches that a rank of a message-driven run may have between their forward and "
             "their backward (default: as many as stages)")
      ->default_str("");
  flags
      .whole("--zero", zero, 0,
             "what replicas share out: 1 optimizer state, 2 gradients, too, 3 weights, too")
      ->check(number_between(0, 3));
  auto is_codec = [](const std::string& value) -> std::string {
    try {
      parallel::parse_codec(value);
      return "";
    } catch (const autograd::Error& error) {
      return error.what();
    }
  };
  flags
      .words("--codec", codec, "NAME",
             "how sums of gradients are encoded between ranks: " + parallel::codec_usages())
      ->check(CLI::Validator(is_codec, ""));
  flags
      .words("--codec-channel", channel, "NAME",
             "how activations and their gradients are encoded between stages: " +
                 parallel::codec_usages(parallel::for_activations))
      ->check(CLI::Validator(is_codec, ""));
}

inline bool ScheduleFlags::given() const {
  return !schedule.empty() || !setting.empty() || !codec.empty() || !channel.empty() || recompute ||
         std::max({stages, data_parallel, microbatches, zero, gap, in_flight}) > 0;
}

inline parallel::Layout ScheduleFlags::layout() const {
  PG_CHECK(setting.empty() || cyclic(), "--setting ", setting, ": the schedule ", schedule,
           " has no settings; cyclic-v1 and cyclic-v2 have");
  PG_CHECK(gap == 0 || cyclic(), "--gap ", gap, ": the schedule ", schedule,
           " has no turns; cyclic-v1 and cyclic-v2 have");
  PG_CHECK(gap == 0 || has_turns(), "--gap ", gap, ": --setting ", setting,
           " has no turns; data and zero have");
  PG_CHECK(in_flight == 0 || schedule == "message-driven", "--in-flight ", in_flight,
           ": the schedule ", schedule, " has a fixed order; message-driven has none");
  if (cyclic()) check_cyclic();
  return {.stages = std::max(1, stages),
          .width = std::max(1, data_parallel),
          .microbatches = cyclic() ? stages : std::max(1, microbatches),
          .recompute = recompute,
          .setting = parallel::settings().at(setting_found()),
          .gap = gap > 0 ? gap : 2,
          .in_flight = in_flight,
          .zero = zero,
          .codec = codec_found(),
          .channel = channel_found()};
}

inline double ScheduleFlags::smallest_share(std::int64_t batch, int ranks) const {
  double parts = 1.0 * std::max(1, microbatches) * std::max(1, data_parallel);
  if (cyclic()) parts = std::max(1, stages > 0 ? stages : ranks);
  return static_cast<double>(batch) / parts;
}

/// A cyclic schedule's microbatches are its replicas, one for each stage.
inline void ScheduleFlags::check_cyclic() const {
  PG_CHECK(stages > 0, "--schedule ", schedule, " needs --stages N",
           setting == "one-device" ? ": all of them run on one rank" : "");
  PG_CHECK(microbatches == 0 || microbatches == stages, "--microbatches ", microbatches,
           ": the schedule ", schedule, " has as many microbatches as stages, ", stages,
           "; leave this flag out");
}

/// Stages of a cyclic schedule that make use of all ranks.
inline int ScheduleFlags::stages_on(int ranks) const {
  if (setting == "one-device") return 0;  // any number runs there
  if (setting != "model") return ranks;
  // N stages take N (N + 1) / 2 ranks.
  auto needed = [](std::int64_t n) { return n * (n + 1) / 2; };
  int n = static_cast<int>((std::sqrt(8.0 * ranks + 1) - 1) / 2);
  PG_CHECK(needed(n) == ranks, ranks, " ranks: --setting model takes N (N + 1) / 2 of them for N ",
           "stages; ", needed(n), " make ", n, ", ", needed(n + 1), " make ", n + 1);
  return n;
}

inline void ScheduleFlags::fit(int ranks) {
  if (schedule.empty()) schedule = stages > 1 ? "1f1b" : "data";
  if (cyclic() && stages == 0 && ranks > 0) stages = stages_on(ranks);
  auto needed = [this] {
    parallel::Layout plain = layout();
    plain.zero = 0;  // it shares out what ranks hold, and adds none
    plain.codec = plain.channel = {};
    return parallel::make_plan(schedule, plain).ranks();
  };
  if (!cyclic() && data_parallel == 0) {
    int depth = needed();
    if (ranks > 0 && ranks % depth == 0) data_parallel = ranks / depth;
  }
  int wanted = needed();
  if (ranks == 0 || ranks == wanted) return;
  std::string placed =
      cyclic() ? text("--setting ", setting_found()) : text("--data-parallel ", layout().width);
  throw autograd::Error(text(ranks, " ranks: the schedule ", schedule, " with --stages ",
                             layout().stages, " and ", placed, " needs ", wanted));
}

/// A plan from its text form. What it says is not verified.
/// throws: Error, with file and line
inline parallel::Plan read_plan(const std::string& file) {
  bool from_input = file == "-";
  std::string content =
      from_input ? std::string(std::istreambuf_iterator<char>(std::cin), {}) : nn::read_file(file);
  try {
    return parallel::parse(content);
  } catch (const autograd::Error& error) {
    throw autograd::Error(text(from_input ? "standard input" : file, ": ", error.what()));
  }
}

}  // namespace paragrad::examples
