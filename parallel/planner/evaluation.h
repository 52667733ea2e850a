// Evaluation: how long an update of a candidate plan takes on a machine, a lower bound of that, and
// the memory that its ranks need.
// Not here: which candidates there are (search.h), seconds of kernels and sums (stage_seconds.h).
// Chapter 16.
#pragma once

#include <future>

#include "parallel/planner/peak.h"
#include "parallel/planner/stage_seconds.h"
#include "parallel/schedules/schedule.h"
#include "parallel/simulation/breakdown.h"
#include "parallel/simulation/simulate.h"

namespace plangrad::parallel {

/// A plan that a search may choose: replicas of a pipeline, or of a whole model.
struct Candidate {
  std::string schedule;
  Layout layout;     ///< with defaults; `steps` and `cuts` have no effect
  int examples = 1;  ///< of a microbatch
  Packing packing = Packing::stages;
  bool by_seconds = false;  ///< cut by predicted seconds; else by FLOPs, as training does
  double pruned = 0;        ///< share of each matrix that is not stored (SAMO)

  int depth() const { return layout.depth(); }
  int devices() const { return layout.width * depth(); }
};

using RanksByStage = std::vector<std::vector<int>>;

struct Found {
  Candidate candidate;
  double simulated = 0;                             ///< of an update, as simulated plans say
  double seconds = 0;                               ///< of an update; no less than the bound
  AllReduce reduction = AllReduce::scatter_reduce;  ///< of those that a run can choose, the fastest
  Peak peak = {};                                   ///< of the rank of a replica that has the most
  double bytes = 0;                                 ///< at that peak
  TimeParts parts = {};                             ///< seconds of all ranks of a replica
};

/// Evaluates candidates of one model, of one dtype, on one machine.
/// One replica is simulated, as the others do the same at the same time: its messages have a part
/// of the links (stage_seconds.h). Its sums and ZeRO's gathers are as long as those of all
/// replicas, by the lists of the fastest reduction; they share links with messages, while ranks
/// compute on.
/// A plan of many microbatches is extended from two shorter ones, as from some number on each
/// microbatch adds the same time. If updates overlap, these plans have several updates.
class Evaluation {
  /// A plan that is simulated, and how much its results count.
  struct Length {
    int microbatches = 1, steps = 1;
    double time = 1, memory = 1;
  };
  struct Run {
    Length length;
    std::shared_ptr<const Costs> costs;
    std::shared_ptr<const Simulation> simulation;
    EventTimes times;
  };

 public:
  static constexpr double endless = std::numeric_limits<double>::infinity();

  /// settings: what all candidates share; examples, recomputation, cuts and pruned are theirs
  /// run: whose computations' seconds count instead of the machine's, which then has no host's. At
  ///   other numbers of examples they change as the machine's do
  Evaluation(const PlannedModel& model, const Machine& machine, const CostSettings& settings,
             const std::optional<MeasuredSeconds>& run = {});

  /// throws: Error if the machine has no links between as many hosts as these devices need
  void check_links(int devices) const;
  /// Whether it matters which ranks of a candidate are side by side.
  bool has_packings(const Candidate& candidate) const;
  /// Whether ranks add up gradients of a stage that several have.
  bool has_sums(const Candidate& candidate);
  /// The cuts, as in Layout. Those by seconds are empty if the usual ones take as long.
  std::vector<double> cuts(const Candidate& candidate);
  /// Seconds that an update takes at least: the busiest rank's work, what must precede and follow
  /// it in a pipeline that drains, and an update with its sum.
  ///   messages: seconds from each stage to the next, alone; empty: none
  double bound(const Candidate& candidate, std::vector<double> messages = {});
  /// A bound that also knows messages: a host's card must carry them and sums, and of K
  /// microbatches that are between their forward and their backward on the first stage at once each
  /// takes at least L, so that m of them take at least m L / K. It takes longer, as K is counted in
  /// a plan.
  /// source: Little 1961
  double bound_with_messages(const Candidate& candidate);
  /// Bytes that some rank needs at least: its state, and what a microbatch keeps.
  double least_bytes(const Candidate& candidate);
  /// A candidate whose simulations have started.
  struct UnderWay {
    Candidate candidate;
    bool whole;
    std::vector<std::future<Run>> runs = {};
  };
  /// Simulates a candidate. Its memory has no bytes if it takes longer than `most` seconds.
  ///   with_parts: also divides its time
  Found simulated(const Candidate& candidate, double most = endless, bool with_parts = false) {
    return finish(start(candidate), most, with_parts);
  }
  /// Starts the simulations of a candidate, which threads run until finish() has their results.
  ///   whole: all microbatches of all replicas, where else shorter plans of one are extended
  UnderWay start(const Candidate& candidate, bool whole = false);
  Found finish(UnderWay under_way, double most = endless, bool with_parts = false);

 private:
  struct Stages {
    ModelCosts costs;
    std::vector<StageSeconds> seconds;
  };
  /// Ranks that share the optimizer's state of a stage.
  static int shards(const Layout& layout) { return layout.zero > 0 ? layout.width : 1; }
  /// Whether a microbatch meets the sum of another.
  static bool has_second(const Layout& layout) { return layout.microbatches > layout.copies(); }
  double weight_bytes(const StageCosts& stage) const {
    return static_cast<double>(stage.bytes.stored * size_of(settings_.dtype));
  }
  /// The bytes of a gradient sum in memory, which is in f32.
  static double sum_bytes(const StageCosts& stage) {
    return 4.0 * static_cast<double>(stage.bytes.stored);
  }
  const Stages& stages(const Candidate& candidate);
  Stages stages(int count, const CostSettings& settings, int ranks = 1);
  CostSettings settings_of(const Candidate& candidate) const;
  struct Traits {
    bool overlaps = false;   ///< one more update takes less than the first
    bool splits = false;     ///< backwards have two parts
    bool keeps_one = false;  ///< version of the weights
    bool drifts = false;     ///< backwards read newer ones than their forwards
    bool by_stage = false;   ///< all backwards of a stage come before those of the rank's others
    /// Whether an update's first forward waits for the update before it.
    bool flushes() const { return !overlaps || (keeps_one && !drifts); }
  };
  const Traits& traits(const Candidate& candidate);
  /// Seconds that a rank needs in an update.
  struct RankWork {
    double work = 0, parts = 0;  ///< parts: W, which may come when all else is done
    double updates = 0, reduce = 0, gather = 0;
    double forward = 0;                                     ///< of a microbatch
    double least_gather = endless, least_reduce = endless;  ///< of a stage
    double least_finish = endless;                          ///< of a stage: its sum and its update
    int first = 0;                                          ///< of its stages
  };
  RankWork rank_work(const Candidate& candidate, int rank);
  /// Microbatches between their forward and their backward, as the order of rows has them.
  struct InFlight {
    void add(const Row& row, int stage, int per_update, bool flushes);
    int first = 0;               ///< the most on the first stage, on all ranks that have it
    std::vector<int> most = {};  ///< by rank
    /// By rank: the fewest in flight after a backward, while forwards of the update are left.
    std::vector<int> ahead = {};
  };
  const InFlight& in_flight(const Candidate& candidate);
  int most_in_flight(const Candidate& candidate);
  double passing(const Candidate& candidate, const std::vector<double>& messages);
  double carrying(const Candidate& candidate, const Costs& costs, const Topology& links);
  /// Sums and gathers over replicas.
  struct Sums {
    AllReduce how = AllReduce::scatter_reduce;
    std::vector<double> reduce = {}, gather = {};  ///< seconds by stage
    RanksByStage ranks = {};                       ///< of a replica
    RanksByStage members = {};                     ///< of the simulated plan, for a sum
  };
  const Sums& sums(const Candidate& candidate);
  Sums fastest_sums(const Candidate& candidate);
  static Replicas replicas_of(const Candidate& candidate) {
    return {candidate.packing, candidate.layout.width, candidate.depth()};
  }
  using GroupSeconds = std::map<std::pair<AllReduce, ListMaker>, SumSeconds>;
  const GroupSeconds& group_seconds(const Candidate& candidate, const std::vector<int>& ranks);
  void add_partners(Costs& costs, Topology& links, const Candidate& candidate);
  static Plan replica_plan(const Candidate& candidate, Layout layout, const RanksByStage& members);
  Costs costs(const Candidate& candidate, bool whole);
  std::vector<Length> lengths(const Candidate& candidate, bool all);
  void add_peaks(Plan plan, const Timeline& timeline, double factor, const UnderWay& under_way,
                 std::vector<Peak>& peaks);

  const PlannedModel model_;
  const Machine machine_;
  const CostSettings settings_;
  const std::optional<MeasuredSeconds> run_;
  KnownStages known_;
  // Key: stages, their cuts if by seconds, examples, whether one stage recomputes, share that is
  // pruned, and where a run is known, ranks.
  std::map<std::tuple<int, std::vector<double>, int, bool, double, int>,
           std::shared_ptr<const Stages>>
      stages_;
  // The cuts by seconds; key: stages, examples, share that is pruned, and what says which fit.
  std::map<std::tuple<int, int, double, int, bool>, std::vector<double>> cuts_;
  // The model cut into its smallest parts; key: examples, share that is pruned.
  std::map<std::pair<int, double>, std::shared_ptr<const Stages>> parts_;
  std::map<std::pair<std::string, int>, Traits> traits_;  // key: schedule, chunks
  // Key: schedule, stages, depth, microbatches.
  std::map<std::tuple<std::string, int, int, int>, InFlight> in_flight_;
  // Key: stages, the examples by whose seconds they are cut, width, depth, packing, whether
  // reductions are in parts, placement, share that is pruned, codec.
  std::map<
      std::tuple<int, int, int, int, Packing, bool, std::optional<Placement>, double, std::string>,
      Sums>
      sums_;
  // Key: the hosts of the members, numbered in order of appearance.
  std::map<std::vector<int>, GroupSeconds> group_seconds_;
  // Key: schedule, stages, depth, microbatches, updates, ZeRO, recomputation, replicas, members.
  std::map<std::tuple<std::string, int, int, int, int, int, bool, bool, RanksByStage>,
           std::shared_future<std::shared_ptr<const Simulation>>>
      simulations_;
  std::int64_t forwards_ = 0;  // the forwards in all of simulations_
};

}  // namespace plangrad::parallel
