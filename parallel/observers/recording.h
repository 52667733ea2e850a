// What recorded updates tell: where their time went, and what they would take as planned; and the
// machine and cores that ranks compute on, which a report says if ranks share them.
// Not here: recording them (session/session_lead.cpp), the run as a whole (run_record.h), times on
// cores of their own (simulation/variants.h). Chapter 06.
#pragma once

#include "parallel/session/observer.h"
#include "parallel/simulation/breakdown.h"

namespace plangrad::parallel {

// ---- the machine ----

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

/// The processor of this machine, as it calls itself; empty if it doesn't say.
std::string processor_name();
/// A word as a shell takes it, in quotes unless it has plain characters only.
inline std::string shell_word(std::string word) {
  constexpr const char* plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./,:@%";
  if (!word.empty() && word.find_first_not_of(plain) == word.npos) return word;
  for (std::size_t quote = 0; (quote = word.find('\'', quote)) != word.npos; quote += 4)
    word.replace(quote, 1, "'\\''");
  return "'" + word + "'";
}
/// The command that started this process, as a shell takes it.
std::string command_line();
/// For summary.json: processor and host of rank 0, the hosts of all ranks, and the cores that the
/// ranks may use, over all hosts.
nlohmann::json machine_json(const std::vector<RankCores>& ranks);

/// Two lines on the recorded updates of ranks that share cores: how long they idle, and why.
std::vector<std::string> about_times(const SharedCores& shared, const nlohmann::json& summary);

// ---- recorded updates ----

struct Pretended;

/// The devices of a recording: pretended ones or shared cores, and how their ranks add up.
struct RecordingContext {
  const Pretended* pretended = nullptr;
  std::optional<SharedCores> shared;  ///< the cores that ranks share; none: each has its own
  Summing sums = {};                  ///< how groups add up, as in Costs::sums
};

/// A timeline of the recorded updates, and where its time goes.
struct TimedVersion {
  std::string key;
  Timeline timeline;
  Breakdown time;
};

struct RecordedFacts {
  std::vector<TimedVersion> versions;    ///< "measured"; "simulated" from the measured costs; if
                                         ///< ranks share cores, "own_cores"
  std::vector<TimeParts> without_core;   ///< seconds that each rank's computations lack a core
  std::vector<std::string> about_times;  ///< two lines; none if ranks share no cores
  nlohmann::json summary;                ///< "bubble", "breakdown", ...: keys of summary.json
  /// Returns what reports call simulated: with a core for each rank if ranks share some.
  const Timeline& simulated() const { return versions.back().timeline; }
};

/// Takes time in proportion to the number of records.
RecordedFacts facts_of(const RecordedUpdates& recorded, const RecordingContext& context);

/// The most bytes of one category that all ranks together have at once.
std::int64_t peak_of_all_ranks(std::vector<MemorySample> samples, const std::string& category);

/// The costs of a measured timeline's computations and messages: medians of the stages' forwards,
/// backwards, parts of split backwards, and updates; 0 for a kind that did not run. The times of
/// messages, and of the rounds of a collective, contain waiting, so the shortest one is the
/// latency, and the rate that a tenth of them reach in the time beyond it is the bandwidth.
///   sums: how the run added up; see Costs::sums
Costs measured_costs(const Plan& plan, const Timeline& measured, const Summing& sums = {});

}  // namespace plangrad::parallel
