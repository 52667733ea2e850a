// RowRun: the state of one rank's row of a plan while it runs: facts that are known before, the
// stages that it touches, and its results. All parts of the interpreter share it. Waiting: how long
// a computation waits for the other lane, and what a rank says when it gives up.
// Not here: how the row runs (interpreter.h), what it waits for (mailbox.h, sum_book.h).
// Chapters 04 and 05.
#pragma once

#include "parallel/engine/engine.h"
#include "parallel/engine/message_lane.h"

namespace plangrad::parallel {

/// A version of a stage's weights; or the gradient sum that makes it.
struct Made {
  int stage = 0, version = 0;
  friend auto operator<=>(const Made&, const Made&) = default;
};

/// Cells are counted over the run: those of an endless plan's body have new numbers each time, and
/// at() names their values anew.
struct RowRun {
  /// `engine` and `verified` must outlive it. `number`: the plan's number in the run. `bodies`: how
  /// often the body of an endless plan runs; it can be made smaller until the last one has begun.
  RowRun(Engine& engine, const VerifiedPlan& verified, int number, int bodies);

  Engine& engine;
  const Plan& plan;
  int rank, number, bodies;
  bool records = true;   ///< whether each cell leaves a record
  std::size_t capacity;  ///< messages that a channel holds
  std::vector<int> tied_versions;
  Lifetimes lifetimes;
  std::vector<std::vector<int>> holders;  ///< ranks, per stage
  std::set<int> stepped;                  ///< stages that the row makes steps of
  std::set<int> sent;                     ///< stages whose finished sums it sends
  std::map<int, StageBuffers> visiting;  ///< buffers of stages that other ranks keep (cyclic, zero)
  RunResult result;

  /// The number of cells of a rank's row, and one of them.
  int cells_of(int rank) const;
  Instruction at(int rank, int cell) const;
  Instruction at(int cell) const { return at(rank, cell); }
  /// The bodies that a rank has begun when it reaches a cell, if a body or the tail begins there;
  /// nullopt: neither does. A plan of one length has no bodies.
  std::optional<int> bodies_before(int cell) const;
  /// Whether the plan is endless and this rank has nothing to do in its body.
  bool has_empty_body() const {
    return plan.is_endless() && plan.bars[rank].first == plan.bars[rank].second;
  }
  /// A cell and its neighbours, for error messages.
  std::string mark(int cell) const;
  /// The cells of a rank's row in which an instruction runs, in order; however long the run is, the
  /// search goes over the row once, as it is written.
  std::vector<int> cells_with(int rank, const Instruction& x) const;
  /// The values that a cell needs; and what follows from the row for it (lifetimes.h).
  std::vector<Name> needs(int cell) const;
  std::vector<Made> ending_at(int cell) const;
  bool needed_after(const Made& weights, int cell) const;
  /// The updates that the run has made when the row ends.
  int last_step() const { return plan.first + plan.steps + (bodies - 1) * plan.period; }

  /// The sum that an instruction acts on.
  Made sum_of(const Instruction& x) const {
    return {x.stage, x.micro >= 0 ? plan.made_by(x.micro) : x.version};
  }
  Name finished_name(const Made& sum) const {
    return {Value::gradient_sum, sum.stage, plan.last_micro_of(sum.version)};
  }

  /// The state of a stage that this rank keeps; and the buffers of any stage that the row touches.
  WeightStore& kept(int stage) { return engine.stores().at(stage); }
  StageBuffers& stage(int stage);
  /// This rank's part of a group's collective on x.
  std::shared_ptr<GroupRun> in_group(int group, Joint what, const Tensor& x, AllReduce how,
                                     CollectiveRun::Encoding encoding = {nullptr, 0}) const;

 private:
  /// Where a cell is written, and how many bodies later it runs.
  struct Written {
    int index, later;
  };
  Written written(int rank, int cell) const;
};

using Bytes = std::shared_ptr<std::int64_t>;  ///< bytes sent; final once the ticket is done

/// A message, or work on a sum, that was handed to the other lane.
struct Issued {
  int cell = 0;  ///< the cell's place in the row
  TicketPtr ticket = {};
  Bytes bytes = {};
  std::shared_ptr<const Issued> before = {};  ///< the message that it waits for in the lane
};

/// Waits of a row for values and messages: each has a deadline, and an error that says what for.
class Waiting {
 public:
  /// The arguments are kept by reference and must outlive it.
  Waiting(const RowRun& run, MessageLane& lane)
      : run_(run), transport_(run.engine.transport()), lane_(lane) {}

  /// Notes that the rank is at this cell, and tells the others.
  void reach(int cell);
  /// Tells the others that the rank computes, until it waits or reaches another cell.
  void compute() { tell(Work::computing); }
  int cell() const { return cell_; }

  /// Waits for a message; first for the one that it depends on, so that an error names that one.
  /// throws: Error `rank 1: waited 60 s for 1g5>1 of rank 2; rank 2 was at 2F5v1`
  void wait(const Issued& message) const;
  /// Waits until one of the tickets is done; an error names `cell`.
  void wait_for_any(const std::vector<const Ticket*>& tickets, int cell) const;

  /// Waits for a message that no cell names.
  /// throws: Error `rank 1: waited 60 s for <what> of rank 0; rank 0 was at 2F5v1`
  void wait_for_word(const Ticket& ticket, const std::string& what, int peer) const;

 private:
  void tell(Work work) const;
  bool wait_patiently(const std::vector<const Ticket*>& tickets) const;
  [[noreturn]] void give_up(Clock::time_point start, const std::string& awaited, int peer) const;
  int awaited_rank(int cell) const;
  std::string place_of(int rank) const;
  bool is_in_plan(const Position& place, int rank) const;

  const RowRun& run_;
  Transport& transport_;
  MessageLane& lane_;
  int cell_ = 0;
};

}  // namespace plangrad::parallel
