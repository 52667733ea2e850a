// The flags of schedules: their names, which schedule has which, and defaults that follow from
// other flags.
// Chapter 06.
#include "examples/programs/schedule_flags.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <iterator>
#include <vector>

#include "examples/programs/program.h"
#include "nn/checkpoint/file.h"

namespace plangrad::examples {
namespace {

/// Lists the schedules that have a flag: "a, b and c".
std::string names_with(const parallel::ScheduleFlag& flag) {
  std::vector<std::string> names;
  for (const parallel::Schedule* each : parallel::schedules())
    if (each->has(flag)) names.push_back(each->name);
  const std::string last = names.back();
  names.pop_back();
  return names.empty() ? last : fmt::format("{} and {}", fmt::join(names, ", "), last);
}

/// Checks that a flag can be set to a value.
CLI::Validator taken_by(const parallel::ScheduleFlag& flag) {
  return {[&flag](const std::string& value) -> std::string {
            parallel::Layout layout;
            try {
              flag.set(layout, value);
            } catch (const autograd::Error& error) {
              return error.what();
            }
            return "";
          },
          ""};
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

std::vector<std::string> schedule_names() {
  std::vector<std::string> names;
  for (const parallel::Schedule* each : parallel::schedules()) names.push_back(each->name);
  return names;
}

const parallel::Schedule& ScheduleFlags::behaviour() const {
  static const parallel::Schedule usual;
  return schedule.empty() ? usual : parallel::find_schedule(schedule);
}

void ScheduleFlags::add_flags(Flags& flags) {
  flags.group("Schedule");
  flags.choice("--schedule", schedule, schedule_names(),
               "order of the work, and which version of the weights it reads");
  flags.whole("--stages", stages, 1, "parts that the model is cut into")->default_str("1");
  flags.whole("--data-parallel", data_parallel, 1, "replicas of the model")->default_str("1");
  flags
      .whole("--microbatches", microbatches, 1,
             "parts of a replica's batch; cyclic schedules always have as many as stages")
      ->default_str("1");
  flags.yes("--recompute", recompute, "save memory: drop activations and compute them again");
  for (const parallel::ScheduleFlag* flag : parallel::schedule_flags()) {
    const std::string what = names_with(*flag) + ": " + flag->what;
    if (flag->is_list)
      flags.words(flag->name, own[flag->name], "N,N", what)->check(taken_by(*flag));
    else if (flag->values.empty())
      flags.words(flag->name, own[flag->name], "N", what)
          ->check(number_between(1, std::numeric_limits<int>::max()));
    else
      flags.choice(flag->name, own[flag->name], flag->values, what.c_str());
  }
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
  auto is_given = [](const auto& flag) { return !flag.second.empty(); };
  return !schedule.empty() || !codec.empty() || !channel.empty() || recompute ||
         std::max({stages, data_parallel, microbatches, zero}) > 0 ||
         std::any_of(own.begin(), own.end(), is_given);
}

/// Rejects flags that the schedule does not have.
void ScheduleFlags::check_own_flags() const {
  for (const parallel::ScheduleFlag* flag : parallel::schedule_flags()) {
    if (!gives(flag->name) || behaviour().has(*flag)) continue;
    throw autograd::Error(text(flag->name, ' ', own.at(flag->name), ": the schedule ", schedule,
                               " has no ", flag->thing, "; this flag is for ", names_with(*flag)));
  }
  PG_CHECK(!gives("--gap") || has_turns(), "--gap ", own.at("--gap"), ": --setting ",
           setting_found(), " has no turns; data and zero have them");
  if (cyclic()) check_cyclic();
}

parallel::Layout ScheduleFlags::layout() const {
  check_own_flags();
  parallel::Layout layout{.stages = std::max(1, stages),
                          .width = std::max(1, data_parallel),
                          .microbatches = cyclic() ? stages : std::max(1, microbatches),
                          .recompute = recompute,
                          .zero = zero,
                          .codec = codec_found(),
                          .channel = channel_found()};
  for (const parallel::ScheduleFlag* flag : parallel::schedule_flags())
    if (gives(flag->name)) flag->set(layout, own.at(flag->name));
  return layout;
}

std::string ScheduleFlags::note(bool clip) const {
  if (!behaviour().note) return "";
  parallel::Layout found = settled(behaviour(), layout());
  found.clip = clip;
  return behaviour().note(found);
}

double ScheduleFlags::smallest_share(std::int64_t batch, int ranks) const {
  double parts = 1.0 * std::max(1, microbatches) * std::max(1, data_parallel);
  if (cyclic()) parts = std::max(1, stages > 0 ? stages : ranks);
  return static_cast<double>(batch) / parts;
}

/// Checks that a cyclic schedule has stages, and as many microbatches, which are its replicas.
void ScheduleFlags::check_cyclic() const {
  PG_CHECK(stages > 0, "--schedule ", schedule, " needs --stages N",
           setting_found() == "one-device" ? ": one rank runs all of them" : "");
  PG_CHECK(microbatches == 0 || microbatches == stages, "--microbatches ", microbatches,
           ": the schedule ", schedule, " has as many microbatches as stages, ", stages,
           "; leave this flag out");
}

/// Returns the number of stages with which the schedule uses all ranks; 0: any number does, or the
/// ranks become replicas.
int ScheduleFlags::stages_on(int ranks) const {
  if (!cyclic()) {
    const parallel::Layout asked = settled(behaviour(), layout());
    const bool is_usual = asked.placement == parallel::Placement::straight;
    return is_usual ? 0 : ranks / asked.width * asked.chunks / asked.copies();
  }
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
  if (stages == 0 && ranks > 0) stages = stages_on(ranks);
  auto needed = [this] {
    parallel::Layout plain = settled(behaviour(), layout());
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

namespace {

/// Reads standard input to its end.
/// throws: Error if that never comes, as of /dev/zero or `yes`
std::string read_input() {
  constexpr std::size_t most = 1 << 30;  // bytes; 2,000 stages with 2,000 microbatches have 300 MB
  std::string all, part(1 << 16, '\0');
  while (std::cin) {
    std::cin.read(part.data(), std::ssize(part));
    const std::string_view got(part.data(), static_cast<std::size_t>(std::cin.gcount()));
    all += got;
    PG_CHECK(got.find('\0') == got.npos && all.size() <= most,
             "standard input is no plan: it has a zero byte, or more than 1 GB");
  }
  return all;
}

}  // namespace

parallel::Plan read_plan(const std::string& file) {
  bool from_input = file == "-";
  const std::string content = from_input ? read_input() : nn::read_file(file);
  try {
    return parallel::parse(content);
  } catch (const autograd::Error& error) {
    throw autograd::Error(text(from_input ? "standard input" : file, ": ", error.what()));
  }
}

}  // namespace plangrad::examples
