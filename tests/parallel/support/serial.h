// Serial interpreter: runs the rows of all ranks on one thread, with lists in place of messages and
// loops in place of collectives: the numerical reference of every plan.
// Not here: speed, memory, time. Chapter 05.
#pragma once

#include "parallel/engine/engine.h"
#include "parallel/engine/stage_runner.h"
#include "parallel/verifier/verify.h"

namespace plangrad::parallel {

class Serial {
 public:
  /// `training` must outlive it.
  Serial(const Training& training, int ranks, DevicePtr device,
         AllReduce reduction = AllReduce::scatter_reduce, std::vector<int> hosts = {});

  /// Returns the losses by microbatch. Plans follow each other as in Engine::run.
  std::map<int, double> run(const VerifiedPlan& plan, Batches& batches);

  /// As Engine::set_bits, on all ranks.
  void set_bits(const Bits& bits);

  /// The newest weights of a stage on a rank, flat. What a sharded plan has not gathered is NaN.
  const Tensor& weights(int rank, int stage) const;
  /// The norm of the mean gradient in the version's update, if the plan clips.
  double norm(int version) const { return norms_.at(version); }

 private:
  using Cell = std::pair<int, int>;          // stage, version
  using Name = std::tuple<Value, int, int>;  // what, stage, microbatch (of weights: version)
  struct Rank {
    std::size_t next = 0;  // instruction
    std::map<int, StageRunner> runners;
    std::map<Cell, std::pair<Tensor, Tensor>> read;  // by (stage, microbatch) under way: its
                                                     // stage's weights, and shared ones
    std::map<int, StateFormPtr> forms;               // by stage
    std::map<Cell, Tensor> weights, sums;            // no version is freed but by a drop
    std::map<int, Shard> shards;                     // by stage
    std::map<int, std::unique_ptr<Optimizer>> optimizers;
    std::map<Name, Tensor> values;      // arrived, or made to be sent
    std::set<Name> awaited;             // posted, and not here yet
    std::map<int, BufferCodec> codecs;  // by stage
    std::map<int, std::unique_ptr<LowRank>> low_ranks;
    std::optional<ChannelCodec> channel;
    std::set<Cell> encoded;  // own finished sums that have become what others decode
  };

  struct Channel {
    std::deque<Tensor> sent;
    std::deque<std::pair<int, Name>> posted;  // receiver, and what it calls the value
  };

  using MakeCollective = Collective (*)(const Summing& how, int member, int members);

  void prepare(int number, const std::set<int>& held);
  void add_form(Rank& rank, int stage);
  bool execute(int rank, const Instruction& x);
  bool ready(const Rank& rank, const Instruction& x) const;
  bool forward(Rank& rank, const Instruction& x);
  bool backward(Rank& rank, const Instruction& x);
  void step(Rank& rank, const Instruction& x);
  void drop(Rank& rank, const Instruction& x);
  bool send(int rank, const Instruction& x);
  Tensor sum_to_send(int rank, const Instruction& x);
  void receive(int rank, const Instruction& x);
  void deliver(Channel& channel);
  void sum_up(const std::vector<int>& group, MakeCollective make, const std::vector<Tensor>& sums,
              int stage, int version);
  void sum_factors(const Instruction& x, const std::vector<int>& group,
                   const std::vector<Tensor>& sums);
  bool fold(int rank, const Instruction& x);
  Tensor through_channel(int from, const Instruction& x, const Tensor& value);
  Tensor encoded(Rank& rank, const Instruction& x, const Tensor& sum);
  static BufferCodec* codec(Rank& rank, int stage);
  Summing summing(const std::vector<int>& group) const;
  bool meet(int rank, const Instruction& x);
  void add_up(const Instruction& x, const std::vector<int>& group);
  void gather(const Instruction& x, const std::vector<int>& group);
  const Tensor* finished_sum(const Rank& rank, int stage, int version) const;
  void add_squares(const Instruction& x, const std::vector<int>& group);
  Tensor& sum(Rank& rank, int stage, int version);
  Range own(const Rank& rank, int stage) const;
  Tensor only_own(const Rank& rank, int stage, const Tensor& whole) const;
  Tensor dense(const Rank& rank, Cell cell) const;
  std::pair<Tensor, Tensor> weights_named(const Rank& rank, const Instruction& x) const;
  /// As they are stored.
  const ParameterList& parameters(const Rank& rank, int stage) const {
    return rank.forms.at(stage)->stored();
  }

  const Training& training_;
  DevicePtr device_;
  AllReduce reduction_;
  std::vector<int> hosts_;
  std::vector<Rank> ranks_;
  std::map<int, double> norms_, losses_;
  // Of the plan that runs:
  const Plan* plan_ = nullptr;
  Batches* batches_ = nullptr;
  std::vector<int> tied_versions_;
  std::map<std::pair<int, int>, Channel> channels_;  // by (sender, receiver)
};

}  // namespace plangrad::parallel
