// Engine: one rank of a run. It holds the rank's stages with their weights, and runs its row of
// plan after plan. It is the only training loop there is.
// Not here: what a row does, instruction by instruction (interpreter.cpp). Chapter 05.
//
// The room parallel/engine runs one rank's row of a verified plan:
// engine.h         what outlives a plan: stages, weights, codecs
// interpreter.h    runs a row: one function for each operation
// mailbox.h        values by name: here, arriving, leaving; message_lane.h: moves messages
// sum_book.h       gradient sums: open, changing, finished; loss_and_norm.h: their norm
// stage_runner.h   a stage's arithmetic; weight_store.h: its versions, sums and shards (ZeRO)
// pretended.h      a leaf: how computations and messages last as long as on other devices
// progress.h       what rank 0 hears of an endless plan while it runs, and how far it lets ranks go
// row_run.h        what all of these share; how long a wait may take, and its error
// run_result.h     what a rank finds out in a plan, and how long the plan runs
// training.h       what all ranks agree on beside the plan; how state lies in buffers
// Drawings show the very list that runs here.
#pragma once

#include "parallel/codecs/low_rank.h"
#include "parallel/engine/run_result.h"
#include "parallel/engine/stage_runner.h"
#include "parallel/engine/weight_store.h"
#include "parallel/verifier/verify.h"

namespace plangrad::parallel {

/// throws: Error if the engine can't run the plan with this training on `ranks` ranks
void check_fit(const Plan& plan, const Training& training, int ranks);

/// Make the codecs of a rank: for its activations, and for the gradient sums of a stage.
ChannelCodec make_channel_of(const Plan& plan, const Training& training, int rank);
BufferCodec make_codec_of(const Plan& plan, const Training& training, int rank, int stage,
                          const ParameterList& parameters, const DevicePtr& device);

/// Waits at the end of a computation until it has lasted as long as the run wants it to.
/// Returns whether it is late: it has taken longer already.
using Prolong = std::function<bool(const Plan& plan, const Instruction& computation,
                                   std::chrono::steady_clock::time_point begun)>;

class Engine {
 public:
  struct Settings {
    AllReduce reduction = AllReduce::scatter_reduce;  ///< adds in rank order
    double timeout = 60;                              ///< seconds that any wait may take
    std::vector<int> hosts = {};  ///< each rank's host, any numbers; empty: all are on one host
    Prolong prolong = {};         ///< null: computations last as long as they take
  };
  /// `training` and `transport` must outlive the engine.
  Engine(const Training& training, Transport& transport, DevicePtr device, Settings settings);

  /// Makes the stages of this rank's row. New ones begin with the model's initial values.
  /// throws: Error if the plan does not fit the training or the transport
  void prepare(const Plan& plan);

  /// Runs this rank's row. All ranks call it together, with the same plan.
  /// throws: Error if the plan does not fit; with the marked row if another rank is lost or late;
  ///         or if a loss or gradient is not finite, before this rank makes the update, and if the
  ///         plan clips, before any rank does
  RunResult run(const VerifiedPlan& plan, Batches& batches, const Course& course = {});

  /// The weights that this rank keeps, by stage; the tied one is number stages().
  std::map<int, WeightStore>& stores() { return stores_; }
  /// The newest version that all weights here have reached.
  int made_everywhere() const;
  /// The form of the state of a stage that is computed here, or of the tied one; and the stage's
  /// parameters as they are stored.
  const StateFormPtr& form(int stage);
  const ParameterList& parameters(int stage) { return form(stage)->stored(); }
  /// Gathers `count` elements from the shards of all `holders` of a stage, which call it together.
  Tensor gathered(const Tensor& shard, std::int64_t count, const Shard& place,
                  const std::vector<int>& holders);
  /// Stores all state in another form from now on. Codecs begin anew: what they left out so far is
  /// lost. All ranks call it together, before the first plan is prepared, or between plans.
  ///   like: a plan of the run
  void change_form(const Plan& like, MakeStateForm make);
  const Training& training() const { return training_; }
  Transport& transport() { return transport_; }
  const Settings& settings() const { return settings_; }
  const DevicePtr& device() const { return device_; }
  /// The runner of a stage of this rank's row.
  StageRunner& runner(int stage) { return runners_.at(stage); }
  /// The codec of a stage's gradient sums; null if they travel as they are.
  BufferCodec* codec(int stage) { return codecs_.contains(stage) ? &codecs_.at(stage) : nullptr; }
  /// The low-rank sums of a stage; null if the plan's codec makes no factors.
  LowRank* low_rank(int stage) {
    return low_ranks_.contains(stage) ? low_ranks_.at(stage).get() : nullptr;
  }
  /// Sets the bits of layers that codecs use from the next plan on. All ranks call it alike.
  void set_bits(const Bits& bits);
  const Bits& bits() const { return bits_; }  ///< the bits set last; new codecs get them
  /// The codec of activations; null if they travel as they are.
  ChannelCodec* channel() { return channel_ ? &*channel_ : nullptr; }
  std::map<int, BufferCodec>& codecs() { return codecs_; }
  std::map<int, std::unique_ptr<LowRank>>& low_ranks() { return low_ranks_; }

 private:
  void prepare_codecs(const Plan& plan);
  void make_forms();

  const Training& training_;
  Transport& transport_;
  DevicePtr device_;
  Settings settings_;
  MakeStateForm make_form_;
  bool drops_make_form_ = false;  // once all forms are made: it may hold masks
  std::map<int, StageRunner> runners_;
  std::map<int, StateFormPtr> forms_;  // by stage
  std::map<int, WeightStore> stores_;
  std::map<int, BufferCodec> codecs_;
  std::map<int, std::unique_ptr<LowRank>> low_ranks_;
  std::optional<ChannelCodec> channel_;
  std::optional<std::pair<CodecSpec, CodecSpec>> asked_;  // codec and channel of the plans so far
  int plans_run_ = 0;
  Bits bits_;
};

}  // namespace plangrad::parallel
