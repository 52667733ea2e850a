// The flags of schedules: their names, which schedule has which, and defaults that follow from
// other flags.
// Chapter 06.
#include "examples/common/schedule_flags.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <iterator>
#include <vector>

#include "examples/common/program.h"
#include "nn/checkpoint/file.h"

namespace paragrad::examples {
namespace {

/// Names all schedules for which `behave` is true.
std::vector<std::string> names_of(bool (*behave)(const parallel::Schedule&)) {
  std::vector<std::string> names;
  for (const parallel::Schedule* each : parallel::schedules())
    if (behave(*each)) names.push_back(each->name);
  return names;
}

/// Describes what is wrong with a codec's name; empty if nothing is.
std::string problem_of_codec(const std::string& value) {
  try {
    parallel::parse_codec(value);
    return "";
  } catch (const autograd::Error& error) {
    return error.what();
  }
}

}  // namespace

const parallel::Schedule& ScheduleFlags::behaviour() const {
  static constexpr parallel::Schedule usual;
  return schedule.empty() ? usual : parallel::find_schedule(schedule);
}

void ScheduleFlags::add_flags(Flags& flags) {
  std::vector<std::string> setting_names;
  for (const auto& [name, value] : parallel::settings()) setting_names.push_back(name);
  flags.group("Schedule");
  flags.choice("--schedule", schedule, names_of([](const auto&) { return true; }),
               "order of the work, and which version of the weights it reads");
  flags.whole("--stages", stages, 1, "parts that the model is cut into")->default_str("1");
  flags.whole("--data-parallel", data_parallel, 1, "replicas of the model")->default_str("1");
  flags
      .whole("--microbatches", microbatches, 1,
             "parts of a replica's batch; cyclic schedules always have as many as stages")
      ->default_str("1");
  flags.yes("--recompute", recompute, "save memory: drop activations and compute them again");
  flags.choice("--setting", setting, setting_names,
               "where a cyclic schedule's microbatches run (default: data)");
  flags.whole(
      "--gap", gap, 1,
      "cyclic, settings data and zero: stages between consecutive microbatches (default: 2; "
      "in training 3, because a backward takes about twice as long as a forward)");
  flags.whole("--in-flight", in_flight, 1,
              "message-driven: how many microbatches a rank may hold between forward and backward "
              "(default: as many as stages)");
  flags
      .whole("--zero", zero, 0,
             "ZeRO level: 1 shards optimizer state, 2 also gradients, 3 also weights")
      ->check(number_between(0, 3));
  flags
      .words("--codec", codec, "NAME",
             "how sums of gradients are encoded between ranks: " + parallel::codec_usages())
      ->check(CLI::Validator(problem_of_codec, ""));
  flags
      .words("--codec-channel", channel, "NAME",
             "how activations and their gradients are encoded between stages: " +
                 parallel::codec_usages(parallel::for_activations))
      ->check(CLI::Validator(problem_of_codec, ""));
}

std::string ScheduleFlags::title() const {
  return cyclic() ? text(schedule, " (", setting_found(), ")") : schedule;
}

parallel::CodecSpec ScheduleFlags::codec_found() const {
  return parallel::parse_codec(codec.empty() ? "none" : codec);
}

parallel::CodecSpec ScheduleFlags::channel_found() const {
  return parallel::parse_codec(channel.empty() ? "none" : channel);
}

bool ScheduleFlags::has_turns() const {
  return cyclic() && parallel::has_turns(parallel::settings().at(setting_found()));
}

bool ScheduleFlags::given() const {
  return !schedule.empty() || !setting.empty() || !codec.empty() || !channel.empty() || recompute ||
         std::max({stages, data_parallel, microbatches, zero, gap, in_flight}) > 0;
}

/// Rejects flags that the schedule does not have.
void ScheduleFlags::check_own_flags() const {
  auto names = [](bool (*behave)(const parallel::Schedule&)) {
    return fmt::format("{}", fmt::join(names_of(behave), " and "));
  };
  const std::string cyclic_ones = names([](const auto& schedule) { return schedule.cyclic; });
  const std::string free_ones = names([](const auto& schedule) { return !schedule.has_order; });
  PG_CHECK(setting.empty() || cyclic(), "--setting ", setting, ": the schedule ", schedule,
           " has no settings; ", cyclic_ones, " have them");
  PG_CHECK(gap == 0 || cyclic(), "--gap ", gap, ": the schedule ", schedule, " has no turns; ",
           cyclic_ones, " have them");
  PG_CHECK(gap == 0 || has_turns(), "--gap ", gap, ": --setting ", setting,
           " has no turns; data and zero have them");
  PG_CHECK(in_flight == 0 || !behaviour().has_order, "--in-flight ", in_flight, ": the schedule ",
           schedule, " has a fixed order; ", free_ones, " has none");
  if (cyclic()) check_cyclic();
}

parallel::Layout ScheduleFlags::layout() const {
  check_own_flags();
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

std::string ScheduleFlags::note() const {
  return behaviour().note ? behaviour().note(layout()) : "";
}

double ScheduleFlags::smallest_share(std::int64_t batch, int ranks) const {
  double parts = 1.0 * std::max(1, microbatches) * std::max(1, data_parallel);
  if (cyclic()) parts = std::max(1, stages > 0 ? stages : ranks);
  return static_cast<double>(batch) / parts;
}

/// Checks that a cyclic schedule has stages, and as many microbatches, which are its replicas.
void ScheduleFlags::check_cyclic() const {
  PG_CHECK(stages > 0, "--schedule ", schedule, " needs --stages N",
           setting == "one-device" ? ": one rank runs all of them" : "");
  PG_CHECK(microbatches == 0 || microbatches == stages, "--microbatches ", microbatches,
           ": the schedule ", schedule, " has as many microbatches as stages, ", stages,
           "; leave this flag out");
}

/// Returns the number of stages with which a cyclic schedule uses all ranks; 0: any number does.
int ScheduleFlags::stages_on(int ranks) const {
  const parallel::Setting found = parallel::settings().at(setting_found());
  if (found == parallel::Setting::one_device) return 0;
  if (found != parallel::Setting::model) return ranks;
  // N stages take N (N + 1) / 2 ranks.
  auto needed = [](std::int64_t n) { return n * (n + 1) / 2; };
  int n = static_cast<int>((std::sqrt(8.0 * ranks + 1) - 1) / 2);
  PG_CHECK(needed(n) == ranks, ranks, " ranks: --setting model takes N (N + 1) / 2 of them for N ",
           "stages; ", needed(n), " make ", n, ", ", needed(n + 1), " make ", n + 1);
  return n;
}

void ScheduleFlags::fit(int ranks) {
  if (schedule.empty()) schedule = stages > 1 ? "1f1b" : "data";
  if (cyclic() && stages == 0 && ranks > 0) stages = stages_on(ranks);
  auto needed = [this] {
    parallel::Layout plain = layout();
    plain.zero = 0;  // ZeRO shards what ranks hold, and does not change their number
    parallel::check_layout(behaviour(), plain);
    return behaviour().ranks(plain);
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

parallel::Plan read_plan(const std::string& file) {
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
