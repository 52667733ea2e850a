// A time that is 0 is not pretended, and not told.
// Chapter 06.
#include "parallel/session/pretended_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace plangrad::parallel {
namespace {

struct Times {
  const char *key, *words;
  const std::vector<double>& list;
};

std::vector<Times> times_of(const Pretended& pretended) {
  std::vector<Times> result;
  for (const Times& times :
       {Times{"forward", "forward", pretended.forward},
        Times{"backward", "backward", pretended.backward}, Times{"step", "update", pretended.step}})
    if (std::any_of(times.list.begin(), times.list.end(), [](double x) { return x > 0; }))
      result.push_back(times);
  return result;
}

}  // namespace

nlohmann::json summary_of(const Pretended& pretended, const PretendedCount& count) {
  nlohmann::json result;
  for (const Times& times : times_of(pretended)) result[times.key] = times.list;
  if (pretended.computes()) {
    result["computations"] = count.computations;
    result["late"] = count.late;
  }
  if (!pretended.links()) return result;
  result["latency"] = pretended.latency;
  result["bandwidth"] = pretended.bandwidth;
  if (pretended.ranks_per_card > 0) result["ranks_per_card"] = pretended.ranks_per_card;
  return result;
}

std::vector<std::pair<std::string, std::string>> facts_of(const Pretended& pretended,
                                                          const PretendedCount& count) {
  std::vector<std::pair<std::string, std::string>> facts;
  std::string devices;
  for (const Times& times : times_of(pretended))
    devices += fmt::format("{}{} {} s", devices.empty() ? "" : ", ", times.words,
                           fmt::join(times.list, "; "));
  if (pretended.computes()) facts.emplace_back("pretended devices", devices);
  if (pretended.links())
    facts.emplace_back(
        "pretended links",
        fmt::format("{} s, {} bytes/s{}", pretended.latency, pretended.bandwidth,
                    pretended.ranks_per_card > 0
                        ? fmt::format(", a card for {} ranks", pretended.ranks_per_card)
                        : ""));
  if (const std::string late = lateness(count); !late.empty())
    facts.emplace_back("not as pretended", late);
  return facts;
}

std::string lateness(const PretendedCount& count) {
  if (count.late == 0) return "";
  return fmt::format(
      "{} of {} computations took longer than pretended; the times are not those of the devices",
      count.late, count.computations);
}

}  // namespace plangrad::parallel
