// A rank's row is read from left to right, as the verifier's replay does, with the times of its
// cells. Plans that break a rule are read as far as they go: what is missing is not held.
// Chapters 06 to 09.
#include "parallel/simulation/holdings.h"

#include "parallel/plan/lifetimes.h"

namespace plangrad::parallel {
namespace {

class RowHoldings {
 public:
  RowHoldings(const Plan& plan, int rank, const std::set<int>& stages,
              const std::vector<int>& tied_versions, std::vector<Holding>& out)
      : plan_(plan),
        rank_(rank),
        tied_versions_(tied_versions),
        lifetimes_(plan, rank, tied_versions),
        out_(out) {
    for (const Instruction& x : plan.rows[rank])
      if (makes_version(x)) steps_here_.insert({x.stage, x.version});
    for (int stage : stages) begin(stage);
  }

  void run(int cell, double start, double end) {
    const Instruction& x = plan_.rows[rank_][cell];
    for (const Name& name : needs(plan_, tied_versions_, x)) use(x, name, start, end);
    const bool again = begins_pass(x) && is_open(Hold::input, {Value::stash, x.stage, x.micro});
    for (const Name& name : makes(plan_, x)) {
      if (again && name.what != Value::stash) continue;  // its output has left
      // An update is in place, unless the old version is still read: then both are there meanwhile.
      const bool is_beside =
          makes_version(x) && lifetimes_.needed_after(x.stage, x.version - 1, cell);
      make(x, name, start, is_beside ? start : end);
    }
    if (plan_.steps == 0 && begins_pass(x))
      close(Hold::activations, {Value::stash, x.stage, x.micro}, end);
    for (auto [stage, version] : lifetimes_.ending_at(cell)) retire(stage, version, end);
  }

  /// Ends what lives on at the end of the plan.
  void finish(double seconds) {
    while (!open_.empty()) {
      close(open_.begin()->first.first, open_.begin()->first.second, seconds);
      out_.back().lives_on = true;
    }
  }

 private:
  using Which = std::pair<Hold, Name>;

  static Name version_of(int stage, int version) { return {Value::weights, stage, version}; }

  /// The versions that a rank has before the plan.
  void begin(int stage) {
    const int oldest = std::max(0, lifetimes_.oldest_kept(stage) - plan_.steps);
    for (int version = oldest; version <= plan_.first; ++version)
      if (version == plan_.first || lifetimes_.needed_after(stage, version, -1))
        open(plan_.sharded == 3 ? Hold::shard : Hold::weights, version_of(stage, version), 0);
    newest_[stage] = plan_.first;
  }

  bool is_open(Hold hold, const Name& name) const { return open_.contains({hold, name}); }
  void open(Hold hold, const Name& name, double seconds) {
    open_.try_emplace({hold, name}, seconds);
  }
  bool close(Hold hold, const Name& name, double seconds) {
    const auto found = open_.find({hold, name});
    if (found == open_.end()) return false;
    out_.push_back({rank_, hold, name, found->second, std::max(seconds, found->second)});
    open_.erase(found);
    return true;
  }

  Name sum_name(const Name& name) const {  // by version, whether open or finished
    const bool open = name.what == Value::open_sum;
    return {Value::open_sum, name.stage, open ? name.number : plan_.made_by(name.number)};
  }

  void use(const Instruction& x, const Name& name, double start, double end) {
    switch (name.what) {
      case Value::stash:
        if (drops(x) && close(Hold::activations, name, end)) open(Hold::input, name, end);
        if (goes_back(x) && frees(x, name.what)) close(Hold::activations, name, end);
        return;
      case Value::weights:
        if (drops(x)) drop(name, end);
        return;
      case Value::open_sum: close(Hold::open_sum, sum_name(name), end); return;
      case Value::gradient_sum: {
        const Name sum = sum_name(name);
        if (drops(x) && close(Hold::sum, sum, end)) return open(Hold::sum_shard, sum, end);
        if (close(Hold::sum_shard, sum, end)) return;
        const bool is_copied = plan_.ends_step(name.number);  // others move
        const bool stays = sends(x) && is_copied && steps_here_.contains({sum.stage, sum.number});
        if (!stays && !close(Hold::sum, sum, end)) close(Hold::open_sum, sum, end);
        return;
      }
      default:  // an output or a gradient: once its reader begins, it is the reader's
        if (!close(Hold::arrived, name, start)) close(Hold::leaving, name, sends(x) ? end : start);
    }
  }

  void make(const Instruction& x, const Name& name, double start, double end) {
    switch (name.what) {
      case Value::stash:
        close(Hold::input, name, start);
        return open(Hold::activations, name, start);
      case Value::weights: return make_version(x, name, end);
      case Value::open_sum: return open(Hold::open_sum, sum_name(name), start);
      case Value::gradient_sum:
        close(Hold::sum, sum_name(name), end);
        return open(Hold::sum, sum_name(name), end);
      default: open(receives(x) || meets(x) ? Hold::arrived : Hold::leaving, name, end);
    }
  }

  void make_version(const Instruction& x, const Name& name, double end) {
    if (receives(x)) return open(Hold::copy, name, end);
    if (meets(x)) {  // a gather: at level 3 the shard stays, and the whole version is a copy
      if (plan_.sharded == 3) return open(Hold::copy, name, end);
      close(Hold::shard, name, end);
      return open(Hold::weights, name, end);
    }
    newest_[name.stage] = name.number;
    open(plan_.sharded > 0 ? Hold::shard : Hold::weights, name, end);
    if (plan_.drift > 0) retire(name.stage, name.number - 1, end);  // overwritten
  }

  void drop(const Name& name, double end) {
    if (!close(Hold::copy, name, end)) close(Hold::weights, name, end);
  }

  void retire(int stage, int version, double end) {
    const auto newest = newest_.find(stage);
    if (newest == newest_.end() || newest->second == version) return;
    close(Hold::weights, version_of(stage, version), end);
    close(Hold::shard, version_of(stage, version), end);
  }

  const Plan& plan_;
  const int rank_;
  const std::vector<int>& tied_versions_;
  const Lifetimes lifetimes_;
  std::vector<Holding>& out_;
  std::map<Which, double> open_;              // since when
  std::set<std::pair<int, int>> steps_here_;  // (stage, version) that the row makes
  std::map<int, int> newest_;                 // by stage
};

}  // namespace

const char* name_of(Hold hold) {
  static constexpr const char* names[hold_kinds] = {
      "weights",      "shard", "copy of weights", "activations", "input",
      "gradient sum", "sum",   "shard of a sum",  "arrived",     "leaving"};
  return names[static_cast<int>(hold)];
}

std::vector<Holding> holdings(const Plan& plan, const Timeline& timeline) {
  std::vector<Holding> all;
  const std::vector<std::set<int>> stages = held_stages(plan);
  const std::vector<int> tied = tied_versions(plan);
  auto record = timeline.records.begin();
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    const std::size_t first_held = all.size();
    RowHoldings row(plan, rank, stages[rank], tied, all);
    for (; record != timeline.records.end() && record->rank == rank; ++record)
      row.run(record->cell, record->start, record->end);
    row.finish(timeline.makespan());
    std::ranges::stable_sort(std::span(all).subspan(first_held), {}, &Holding::start);
  }
  return all;
}

std::vector<int> most_held(const std::vector<Holding>& held, Hold hold, int ranks) {
  std::vector<std::vector<std::pair<double, int>>> changes(ranks);  // ends before begins
  for (const Holding& each : held)
    if (each.hold == hold) {
      changes[each.rank].emplace_back(each.start, 1);
      changes[each.rank].emplace_back(each.end, -1);
    }
  std::vector<int> most(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    std::ranges::sort(changes[rank]);
    int now = 0;
    for (const auto& [seconds, change] : changes[rank])
      most[rank] = std::max(most[rank], now += change);
  }
  return most;
}

Timeline in_row_order(const Plan& plan) {
  Timeline timeline{plan.ranks(), {}};
  for_each_cell(plan, [&](int rank, int cell, const Instruction& x) {
    timeline.records.push_back({rank, operation(x).lane(), x, 1.0 * cell, cell + 1.0, 0, 0, cell});
  });
  return timeline;
}

}  // namespace plangrad::parallel
