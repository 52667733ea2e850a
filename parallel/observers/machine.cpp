// Affinity tells the cores; launchers set it for their ranks. Linux tells processor and command.
// Chapter 06.
#include "parallel/observers/machine.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "parallel/drawing/figure.h"
#include "parallel/transports/rank_environment.h"

namespace plangrad::parallel {

RankCores cores_here() {
  RankCores here;
  here.host = host_name();
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

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name"))
      return line.substr(std::min(line.find(": "), line.size() - 2) + 2);
  return "";
}

std::string command_line() {
  std::ifstream file("/proc/self/cmdline");
  const std::string bytes(std::istreambuf_iterator<char>(file), {});
  constexpr const char* plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./,:@%";
  std::string command;
  for (std::size_t at = 0; at < bytes.size(); at = bytes.find('\0', at) + 1) {
    std::string word = bytes.c_str() + at;
    if (word.empty() || word.find_first_not_of(plain) != std::string::npos) {
      for (std::size_t quote = 0; (quote = word.find('\'', quote)) != std::string::npos; quote += 4)
        word.replace(quote, 1, "'\\''");
      word = "'" + word + "'";
    }
    command += (command.empty() ? "" : " ") + word;
  }
  return command;
}

nlohmann::json machine_json(const std::vector<RankCores>& ranks) {
  std::map<std::string, std::set<int>> hosts;
  for (const auto& [name, cores] : ranks) hosts[name].insert(cores.begin(), cores.end());
  std::size_t cores = 0;
  for (const auto& [name, usable] : hosts) cores += usable.size();
  return {{"processor", processor_name()},
          {"host", ranks.empty() ? "" : ranks.front().host},
          {"hosts", hosts.size()},
          {"cores", cores}};
}

/// A run on pretended devices, whose speed is chosen, has another first line: what was pretended.
std::string about_times(const std::optional<SharedCores>& shared, const Timeline& measured,
                        const std::optional<Timeline>& own_cores) {
  if (!shared) return "";
  auto bubble = [](const Timeline& timeline) {
    return fmt::format("{:.1f}%", 100 * timeline.bubble());
  };
  std::string line = fmt::format(
      "{} ranks on {} core{}: they can be busy for at most {:.3g}% of the time. The measured time, "
      "{}, "
      "and its bubble of {} are those of a shared machine.",
      shared->ranks, shared->cores, shared->cores == 1 ? "" : "s", 100 * most_busy(*shared),
      seconds_text(measured.makespan()), bubble(measured));
  if (own_cores)
    line += fmt::format(
        " As if each rank had a core of its own, from the CPU time of each computation: {}, with a "
        "bubble of {}.",
        seconds_text(own_cores->makespan()), bubble(*own_cores));
  return line;
}

}  // namespace plangrad::parallel
