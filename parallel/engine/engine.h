// Engine: one rank of a run. It holds the rank's stages with their weights, and runs its row of
// plan after plan. It is the only training loop there is.
// Not here: what a row does, instruction by instruction (interpreter.cpp). Chapter 05.
//
// The room parallel/engine runs one rank's row of a verified plan:
// engine.h         what outlives a plan: stages, weights, codecs
// interpreter.h    the way through a row: one function for each operation
// mailbox.h        values by name: here, arriving, leaving; message_lane.h: the thread for them
// sum_book.h       gradient sums: open, changing, finished; loss_and_norm.h: their norm
// stage_runner.h   a stage's arithmetic; weight_store.h: its versions, sums and shards (ZeRO)
// state_form.h     how state lies in buffers, dense or pruned
// waiting.h        how long a wait may take, what is said then; row_run.h: what all of these share
// training.h       what all ranks agree on beside the plan: model, cut, optimizer
// What is drawn is the list that runs here; there is no other training loop.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "parallel/codecs/buffer_codec.h"
#include "parallel/codecs/channel_codec.h"
#include "parallel/codecs/low_rank.h"
#include "parallel/collectives/collective.h"
#include "parallel/engine/stage_runner.h"
#include "parallel/engine/weight_store.h"
#include "parallel/simulation/timeline.h"
#include "parallel/transports/transport.h"
#include "parallel/verifier/verify.h"

namespace paragrad::parallel {

/// What a rank has to tell of a plan that it ran.
struct RunResult {
  std::chrono::steady_clock::time_point begun =
      std::chrono::steady_clock::now();  ///< when all ranks had come to the plan
  std::map<int, double> losses;      ///< by microbatch; of those whose last stage is on this rank
  std::map<int, double> accuracies;  ///< by microbatch, in evaluations, if Training counts_right
  std::map<int, std::vector<double>> squares;  ///< by version, if the plan has no norms: of the
                                               ///< summed gradients that this rank counts, each
                                               ///< parameter's sum of squares, in Training::whole
  std::map<int, double> norms;    ///< by version, if it has: of the step's mean gradient
  std::map<int, double> stepped;  ///< by version: seconds after the plan's begin
  std::map<std::string, std::int64_t> bytes_sent;  ///< by message_kind(): "activations", ...
  std::vector<int> order;       ///< in which a message-driven row's cells were run; empty: as it is
  BitOptions bit_options;       ///< of gradients that were measured here, with an adaptive codec
  std::vector<Record> records;  ///< of this rank

  /// Seconds from the plan's begin to `time`.
  double seconds(std::chrono::steady_clock::time_point time) const {
    return std::chrono::duration<double>(time - begun).count();
  }
  /// What other ranks can use: all but the clock.
  static auto fields(auto& x) {
    return std::tie(x.losses, x.accuracies, x.squares, x.norms, x.stepped, x.bytes_sent, x.order,
                    x.bit_options, x.records);
  }
};

/// throws: Error if the engine can't run the plan with this training on so many ranks
void check_fit(const Plan& plan, const Training& training, int ranks);

/// How a rank encodes activations, and the sums of a stage.
ChannelCodec make_channel_of(const Plan& plan, const Training& training, int rank);
BufferCodec make_codec_of(const Plan& plan, const Training& training, int rank, int stage,
                          const ParameterList& parameters, const DevicePtr& device);

class Engine {
 public:
  struct Settings {
    AllReduce reduction = AllReduce::scatter_reduce;  ///< which adds in rank order
    double timeout = 60;                              ///< seconds that any wait may take
    std::vector<int> hosts = {};  ///< by rank, any numbers; empty: all ranks are on one host
  };
  /// `training` and `transport` must outlive the engine.
  Engine(const Training& training, Transport& transport, DevicePtr device, Settings settings);

  /// Makes the stages of this rank's row, those that are not here yet with the model's
  /// first values.
  /// throws: Error if the plan does not fit the training or the transport
  void prepare(const Plan& plan);

  /// Runs this rank's row. All ranks call it together, with the same plan.
  /// throws: Error with the marked row: another rank is lost or late; a loss or gradient is not
  ///         finite, before this rank has made the step, and where the plan clips, before any rank
  ///         has; or the plan does not fit
  RunResult run(const VerifiedPlan& plan, Batches& batches);

  /// By stage; the tied one is number stages().
  std::map<int, WeightStore>& stores() { return stores_; }
  /// Of a stage that is computed here, or of the tied one: the form of its state, and its
  /// parameters as they are stored.
  const StateFormPtr& form(int stage);
  const ParameterList& parameters(int stage) { return form(stage)->stored(); }
  /// A buffer of `count` elements, put together from the shards of all `holders` of a stage, who
  /// call it together.
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
  /// Computes a stage of this rank's row.
  StageRunner& runner(int stage) { return runners_.at(stage); }
  /// The codec of a stage's gradient sums; null where they travel as they are.
  BufferCodec* codec(int stage) { return codecs_.contains(stage) ? &codecs_.at(stage) : nullptr; }
  LowRank* low_rank(int stage) {
    return low_ranks_.contains(stage) ? low_ranks_.at(stage).get() : nullptr;
  }
  /// With an adaptive codec: the bits of layers from the next plan on. All ranks call it alike.
  void set_bits(const Bits& bits);
  /// The codec of activations; null where they travel as they are.
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
  bool forgets_masks_ = false;  // once all forms are made
  std::map<int, StageRunner> runners_;
  std::map<int, StateFormPtr> forms_;  // by stage
  std::map<int, WeightStore> stores_;
  std::map<int, BufferCodec> codecs_;
  std::map<int, std::unique_ptr<LowRank>> low_ranks_;
  std::optional<ChannelCodec> channel_;
  std::optional<std::pair<CodecSpec, CodecSpec>> asked_;  // codec and channel of the plans so far
  int plans_run_ = 0;
};

}  // namespace paragrad::parallel
