// Affinity tells the cores; launchers set it for their ranks.
// Chapter 06.
#include "parallel/session/machine.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>
#include <thread>

#include "parallel/drawing/figure.h"

namespace paragrad::parallel {

RankCores cores_here() {
  RankCores here;
  char name[256] = "";
  if (gethostname(name, sizeof name - 1) == 0) here.host = name;
  cpu_set_t usable;
  CPU_ZERO(&usable);
  if (sched_getaffinity(0, sizeof usable, &usable) == 0)
    for (int core = 0; core < CPU_SETSIZE; ++core)
      if (CPU_ISSET(core, &usable)) here.cores.push_back(core);
  if (here.cores.empty())  // a machine with more cores than the set can name
    for (int core = 0; core < static_cast<int>(std::thread::hardware_concurrency()); ++core)
      here.cores.push_back(core);
  return here;
}

std::optional<SharedCores> shared_cores(const std::vector<RankCores>& ranks) {
  struct Host {
    int ranks = 0;
    std::set<int> cores;
  };
  std::map<std::string, Host> hosts;
  for (const auto& [name, cores] : ranks) {
    Host& host = hosts[name];
    ++host.ranks;
    host.cores.insert(cores.begin(), cores.end());
  }
  std::optional<SharedCores> most;
  for (const auto& [name, host] : hosts) {
    const int cores = static_cast<int>(host.cores.size());
    if (cores == 0 || host.ranks <= cores) continue;  // 0: unknown
    if (!most || host.ranks * most->cores > most->ranks * cores) most = {host.ranks, cores};
  }
  return most;
}

/// A run on pretended devices, whose speed is chosen, has another first line: what was pretended.
std::string about_times(const std::optional<SharedCores>& shared, const Timeline& measured,
                        const std::optional<Timeline>& own_cores) {
  if (!shared) return "";
  auto bubble = [](const Timeline& timeline) {
    return fmt::format("{:.1f} %", 100 * timeline.bubble());
  };
  std::string line = fmt::format(
      "{} ranks share {} core{}: the measured time, {}, and its bubble of {} are those of a shared "
      "machine.",
      shared->ranks, shared->cores, shared->cores == 1 ? "" : "s",
      seconds_text(measured.makespan()), bubble(measured));
  if (own_cores)
    line += fmt::format(
        " As if each rank had a core of its own, from the CPU time of each computation: {}, with a "
        "bubble of {}.",
        seconds_text(own_cores->makespan()), bubble(*own_cores));
  return line;
}

}  // namespace paragrad::parallel
