// RowRun: one rank's way through its row of a plan. Computations run here, one after the other;
// messages go to the other lane.
// Not here: what outlives the plan (engine.h). Chapter 05.
#pragma once

#include <deque>
#include <map>
#include <tuple>

#include "parallel/codecs/factored_run.h"
#include "parallel/collectives/collective_run.h"
#include "parallel/engine/engine.h"
#include "parallel/engine/message_lane.h"
#include "parallel/plan/lifetimes.h"

namespace paragrad::parallel {

class RowRun {
 public:
  RowRun(Engine& engine, const VerifiedPlan& plan, Batches& batches);
  RunResult run();

  /// What ranks publish: the number of the plan and the index in its row, in one.
  static int position(int plan_number, int index) {
    return plan_number % 64 * instructions_of_plan + index;
  }

 private:
  using Name = std::tuple<Value, int, int>;     // what, stage, microbatch (of weights: version)
  using Bytes = std::shared_ptr<std::int64_t>;  // that were sent; final once the ticket is done
  /// A message or reduction that was handed to the other lane.
  struct Issued {
    int index = 0;  // in the row
    TicketPtr ticket = {};
    Bytes bytes = {};
    std::shared_ptr<const Issued> before = {};  // that it waits for in the lane
  };
  struct Arriving {
    Tensor value;
    Issued by;       // without a ticket: the value is here
    Tensor bytes{};  // the value encoded, where others are to have the same copy of it
  };

  struct Norming {
    Issued issued;
    Tensor squares;
  };
  class Stopwatch;

  // One for each operation.
  void forward(const Instruction& x);
  void backward(const Instruction& x);
  void step(const Instruction& x);
  void drop(const Instruction& x);
  void send(const Instruction& x);
  void receive(const Instruction& x);
  void reduce(const Instruction& x);
  void gather(const Instruction& x);
  void fold(const Instruction& x);
  void norm(const Instruction& x);

  void run_cell(int cell);
  void run_driven();
  int first_ready(const std::vector<int>& cells);
  const Arriving* input_of(const Instruction& x) const;
  void execute(const Instruction& x);
  /// Of a stage that is kept here, or that this rank computes with what messages bring.
  WeightStore& store(int stage);
  void free_unread();

  // Values on their way (row_values.cpp).
  static Name name_of(const Instruction& x);
  Tensor room_for(const Instruction& x);
  Shape shape_of_output(int stage, int micro) const;
  Arriving value_to_send(const Instruction& x);
  Arriving sum_to_send(const Instruction& x);
  Arriving own_sum_to_send(const std::pair<int, int>& made, bool moves);
  bool is_finished(const Instruction& x) const {
    return x.micro == plan_.last_micro_of(plan_.made_by(x.micro));
  }
  Arriving take_arriving(const Name& name);
  Arriving take_partial(int stage, int version);
  Tensor take(Value what, int stage, int micro);
  void wait_for(const Name& name);
  void wait_for_own_sum(int stage, int version);
  void wait_for_sum(int stage, int version);
  void wait_for_readers(int stage, int version);

  const std::vector<double>& whole_squares(int version);
  void keep_loss(int micro, const Tensor& loss);
  void read_losses();
  /// The step's gradient norm, from sums of squares; throws unless it is finite.
  double checked_norm(const Instruction& step, const std::vector<double>& squares);
  std::string broken_parameter(const std::vector<double>& squares) const;

  /// A finished gradient whose squares this rank counts in a norm, and the message that brings it.
  struct Gradient {
    const WeightStore* store;
    Tensor values;
    TicketPtr by;
  };
  using Gradients = std::vector<Gradient>;
  bool counts(int stage, int version, const std::vector<int>& group);
  Gradients counted_gradients(int version, const std::vector<int>& group);
  std::vector<double> squares_of(const Gradients& gradients) const;

  // Messages and waiting.
  using MakeCollective = Collective (*)(const Summing& how, int member, int members);
  std::shared_ptr<CollectiveRun> collective(MakeCollective make, int group, const Tensor& x,
                                            AllReduce how,
                                            CollectiveRun::Encoding encoding = {nullptr, 0}) const;
  std::shared_ptr<GroupRun> by_factors(const Instruction& x, const Tensor& sum,
                                       LowRank& low_rank) const;
  void measure_own_sum(int stage, int version);
  Arriving encoded(const Instruction& x, const Arriving& sum);
  ChannelCodec* channel_of(const Instruction& x) const;
  Tensor room_for_code(const ChannelCodec& codec, const Instruction& x, const Tensor& value) const;
  Tensor room_for_code(const BufferCodec& codec, const Tensor& sum) const;
  Issued on_sums(int stage, const Issued& before, std::function<void()> work);
  static int of_stage(int stage) { return -2 - 2 * stage; }  // a queue of the message lane
  void issue(int queue, MessageLane::Task task, Bytes bytes);
  void issue_after(const Issued& before, int queue, MessageLane::Task task, Bytes bytes);
  void issue_collective(int group, std::shared_ptr<GroupRun> run, std::function<bool()> begin = {});
  void bound_sends(int peer);
  void finish_messages();
  void wait(const Ticket& ticket, int index);
  void wait(const Issued& message);
  void wait_for_any(const std::vector<const Ticket*>& tickets, int index);
  [[noreturn]] void give_up(int index, double waited, const std::string& why) const;
  int awaited_rank(int index) const;
  std::string place_of(int rank) const;
  double seconds(Clock::time_point time) const;

  Engine& engine_;
  const Plan& plan_;
  const Row& row_;
  Batches& batches_;
  std::size_t capacity_;  // of a channel
  Lifetimes lifetimes_;
  std::vector<int> tied_versions_;
  std::vector<std::vector<int>> holders_;  // ranks, per stage
  std::set<std::pair<int, int>> steps_;    // of the row: (stage, version)
  std::set<std::pair<int, int>> sent_;     // of the row: finished sums, (stage, version)
  std::map<int, WeightStore> visiting_;    // by stage: whose home is another rank
  Clock::time_point begin_ = Clock::now();
  RunResult result_;

  int index_ = 0;                   // of the present instruction
  Tensor losses_;                   // of unread_losses_, at most a step's
  std::vector<int> unread_losses_;  // microbatches that are not in the result yet
  std::map<Name, Tensor> here_;
  std::map<Name, Arriving> arriving_;
  // By (stage, version): what the other lane does to this rank's own sum; who is sent the weights.
  std::map<std::pair<int, int>, Issued> reducing_;
  std::map<std::pair<int, int>, Tensor> finished_;  // this rank's finished sums, encoded
  std::map<std::pair<int, int>, std::vector<Issued>> reading_;
  std::set<int> measured_;          // stages whose own sum was measured for a choice of bits
  std::map<int, Norming> norming_;  // by version
  std::map<int, std::vector<double>> squares_;  // by version, of the whole gradient
  std::map<int, std::deque<Issued>> sending_;   // by peer; the oldest first
  std::vector<Issued> issued_;
  MessageLane lane_;  // last: its tasks use what is above
};

}  // namespace paragrad::parallel
