// Ranks are added up by kind of kernel. A rank's limits follow from its own rates, as hosts differ.
// Chapter 03.
#include "examples/profile/profile.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "autograd/cpu/cpu_backend.h"
#include "parallel/session/session_rank.h"

namespace plangrad::examples {

using namespace autograd;
using nlohmann::json;

namespace {

/// A kind of kernel, with the seconds that it takes at least.
struct Line {
  std::string kind;
  KernelCalls calls;
  double least = 0;
};

void add(Line& line, const KernelCalls& calls, double least) {
  line.calls.calls += calls.calls;
  line.calls.seconds += calls.seconds;
  line.calls.flops += calls.flops;
  line.calls.bytes += calls.bytes;
  line.least += least;
}

/// The kinds of some ranks, the one that takes longest first.
std::vector<Line> lines_of(const std::vector<RankProfile>& ranks, KernelTable RankProfile::*table) {
  std::map<std::string, Line> kinds;
  for (const RankProfile& rank : ranks)
    for (const auto& [kind, calls] : rank.*table) {
      Line& line = kinds.try_emplace(kind, Line{kind, {}, 0}).first->second;
      add(line, calls, rank.rates.least_seconds(calls));
    }
  std::vector<Line> lines;
  for (auto& [kind, line] : kinds) lines.push_back(std::move(line));
  std::ranges::stable_sort(lines, std::greater(), [](const Line& x) { return x.calls.seconds; });
  return lines;
}

json lines_json(const RankProfile& rank, KernelTable RankProfile::*table) {
  json result = json::array();
  for (const auto& [kind, calls, least] : lines_of({rank}, table))
    result.push_back({{"kind", kind},
                      {"calls", calls.calls},
                      {"seconds", calls.seconds},
                      {"flops", calls.flops},
                      {"bytes", calls.bytes},
                      {"least_seconds", least}});
  return result;
}

std::string row(const Line& line, double seconds, double updates) {
  const KernelCalls& all = line.calls;
  return fmt::format(
      "| {:<34} | {:>6.4g} | {:>9.3f} | {:>5.1f}% | {:>8.3f} | {:>8.1f} | {:>7.0f}% |\n", line.kind,
      static_cast<double>(all.calls) / updates, 1e3 * all.seconds / updates,
      100 * all.seconds / seconds, all.flops / updates / 1e9, all.bytes / updates / 1e6,
      100 * line.least / std::max(all.seconds, 1e-12));
}
std::string row(const std::string& what, double part, double seconds, double updates) {
  return fmt::format("| {:<34} | {:>6} | {:>9.3f} | {:>5.1f}% | {:>8} | {:>8} | {:>8} |\n", what,
                     "", 1e3 * part / updates, 100 * part / seconds, "", "", "");
}

std::string head(const std::vector<RankProfile>& ranks) {
  const RankProfile& first = ranks.front();
  std::string line = fmt::format(
      "An update{}, mean of {}. ",
      ranks.size() > 1 ? fmt::format(" of {} ranks together", ranks.size()) : "", first.updates);
  line += fmt::format(
      "Limits, measured at the end with the {} of {}: products {:.0f} GFLOP/s in f32 and "
      "{:.0f} in bf16; copying {:.1f} GB/s, read and written.\n\n",
      counted(first.threads, "thread"), ranks.size() > 1 ? "a rank (here rank 0)" : "the rank",
      first.rates.f32 / 1e9, first.rates.bf16 / 1e9, first.rates.bandwidth / 1e9);
  return line;
}

}  // namespace

double RankProfile::between() const {
  double rest = seconds;
  for (const auto& [kind, calls] : kernels) rest -= calls.seconds;
  return rest;
}

RankProfile profile_found(const Device& device) {
  const DeviceRates rates = measure_rates(device);
  const KernelProfile& profile = *profile_of(device);
  return {profile.updates(), compute_threads(), profile.seconds(), rates,
          profile.kernels(), profile.beside()};
}

json profile_json(const std::vector<RankProfile>& ranks) {
  json result = json::array();
  for (const RankProfile& rank : ranks)
    result.push_back({{"updates", rank.updates},
                      {"threads", rank.threads},
                      {"seconds", rank.seconds},
                      {"seconds_between_kernels", rank.between()},
                      {"kernels", lines_json(rank, &RankProfile::kernels)},
                      {"message_lane", lines_json(rank, &RankProfile::beside)},
                      {"rates",
                       {{"f32_flops_per_second", rank.rates.f32},
                        {"bf16_flops_per_second", rank.rates.bf16},
                        {"bytes_per_second", rank.rates.bandwidth}}}});
  return result;
}

std::string profile_table(const std::vector<RankProfile>& ranks) {
  constexpr double small = 0.005;
  const double updates = ranks.front().updates;
  double seconds = 0, between = 0;
  for (const RankProfile& rank : ranks) {
    seconds += rank.seconds;
    between += rank.between();
  }
  std::string table = head(ranks) +
                      fmt::format("| {:<34} | {:>6} | {:>9} | {:>6} | {:>8} | {:>8} | {:>8} |\n",
                                  "kernel", "calls", "ms", "share", "GFLOP", "MB", "of limit") +
                      "| :--------------------------------- | -----: | --------: | -----: | "
                      "-------: | -------: | -------: |\n";
  Line others;
  int kinds = 0;
  for (const Line& line : lines_of(ranks, &RankProfile::kernels)) {
    if (line.calls.seconds >= small * seconds) {
      table += row(line, seconds, updates);
    } else {
      add(others, line.calls, line.least);
      ++kinds;
    }
  }
  others.kind = fmt::format("{} other kinds", kinds);
  if (kinds > 0) table += row(others, seconds, updates);
  table += row("between kernels", between, seconds, updates);
  table += row("update", seconds, seconds, updates);
  const std::vector<Line> beside = lines_of(ranks, &RankProfile::beside);
  for (const Line& line : beside)
    table += row({"message lane: " + line.kind, line.calls, line.least}, seconds, updates);
  return table;
}

void Profile::trains(SessionRank& rank, bool begins) {
  KernelProfile& profile = *profile_of(*rank.engine().device());
  if (begins) {
    before_ = rank.steps();
    profile.begin();
  } else {
    profile.end(rank.steps() - before_);
  }
}

RankProfile Profile::carry_out(SessionRank& rank, const Nothing&) {
  return profile_found(*rank.engine().device());
}

void Profile::ended(Lead& lead) {
  if (lead.steps() == lead.first()) return;
  const std::vector<RankProfile> ranks = ask(lead);
  lead.summary()["profile"] = profile_json(ranks);
  std::istringstream table(profile_table(ranks));
  for (std::string line; std::getline(table, line);) lead.say(line);
}

}  // namespace plangrad::examples
