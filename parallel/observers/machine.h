// The machine and the cores that ranks compute on, and what a report says if ranks share them.
// Not here: times on cores of their own (simulation/steady_state.h). Chapter 06.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "parallel/plan/timeline.h"

namespace plangrad::parallel {

/// The cores that a rank may use.
struct RankCores {
  std::string host;
  std::vector<int> cores;  ///< their numbers on the host
  static auto fields(auto& x) { return std::tie(x.host, x.cores); }
};

/// The cores that the calling thread may use; a limit on a container's CPU time does not show. A
/// host that doesn't tell its name has an empty one.
RankCores cores_here();

/// A host that has more ranks than cores for them.
struct SharedCores {
  int ranks = 0, cores = 0;
};

/// The host with the most ranks for each core; none if every host has a core for each of its ranks.
/// Ranks of a host share all cores that any of them may use.
std::optional<SharedCores> shared_cores(const std::vector<RankCores>& ranks);

/// The largest share of their time that all of these ranks can be busy for: 2 cores, 4 ranks: 0.5.
inline double most_busy(const SharedCores& shared) {
  return static_cast<double>(shared.cores) / shared.ranks;
}

/// The processor of this machine, as it calls itself; empty if it doesn't say.
std::string processor_name();
/// The command that started this process, as a shell takes it.
std::string command_line();
/// For summary.json: processor and host of rank 0, the hosts of all ranks, and the cores that the
/// ranks may use, over all hosts.
nlohmann::json machine_json(const std::vector<RankCores>& ranks);

/// The first line of a report: what measured times are times of. Empty if each rank computes on a
/// device of its own, so that there is nothing to say.
///   shared:    none: each rank has a core of its own
///   own_cores: the same plan as if it had, see on_own_cores()
std::string about_times(const std::optional<SharedCores>& shared, const Timeline& measured,
                        const std::optional<Timeline>& own_cores);

}  // namespace plangrad::parallel
