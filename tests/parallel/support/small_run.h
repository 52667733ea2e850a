// A small GPT, microbatches for it, and runs of it by the engine over threads and by the serial
// interpreter: what tests of whole plans share.
#pragma once

#include "nn/models/gpt.h"
#include "parallel/engine/engine.h"
#include "parallel/schedules/schedule.h"
#include "tests/catch.h"
#include "tests/parallel/support/serial.h"

namespace plangrad::tests {

using namespace plangrad::parallel;

/// 4 blocks, so 6 layers, of width 16.
GptConfig small_gpt(bool tied = true, double dropout = 0);

/// A training of small_gpt(tied), without clipping unless asked.
Training small_training(int stages, bool tied = false, double clip = 0);

/// A training whose learning rate rises and falls, by AdamW, or by SGD with momentum.
Training training_with_warmup(const Model& model, int stages, bool adamw, double clip = 0);

/// Microbatches that are alike on every rank: ids are drawn from the microbatch's number.
class SmallBatches : public Batches {
 public:
  explicit SmallBatches(const GptConfig& config, int rows = 2) : config_(config), rows_(rows) {}
  Shape shape(int) const override { return {rows_, config_.context}; }
  Tensor inputs(int micro, const DevicePtr& device) override;
  Tensor targets(int micro, const DevicePtr& device) override;

 private:
  GptConfig config_;
  int rows_;
};

/// One batch, the same in every step, cut into microbatches.
class SameBatch : public Batches {
 public:
  explicit SameBatch(const GptConfig& config, int microbatches = 1, int rows = 4)
      : config_(config), microbatches_(microbatches), rows_(rows) {}
  Shape shape(int) const override { return {rows_ / microbatches_, config_.context}; }
  Tensor inputs(int micro, const DevicePtr& device) override;
  Tensor targets(int micro, const DevicePtr& device) override;

 private:
  GptConfig config_;
  int microbatches_, rows_;
};

/// Noise: four grey images of 8 x 8, of 5 classes.
class SmallImages : public Batches {
 public:
  Shape shape(int) const override { return {4, 1, 8, 8}; }
  Tensor inputs(int micro, const DevicePtr& device) override;
  Tensor targets(int micro, const DevicePtr& device) override;
};

/// Plans that follow each other, of a schedule: `plans` of them, `layout.steps` steps each.
std::vector<VerifiedPlan> plans_of(const std::string& schedule, Layout layout, int plans = 1);

/// The results of a run.
struct Outcome {
  std::map<std::pair<int, int>, std::vector<double>> weights;  ///< newest, by (rank, stage); with
                                                               ///< ZeRO 3 the rank's shard
  std::map<int, double> losses;                                ///< by microbatch
  std::map<int, double> norms;                                 ///< by version
  std::vector<RunResult> last;                                 ///< of the last plan, by rank
  std::map<std::tuple<int, int, int>, std::size_t> hashes;     ///< of the newest weights after each
                                                               ///< plan, by (plan, stage, rank)
  std::vector<std::int64_t> peak_activations, peak_weights;    ///< bytes, by rank
  std::vector<std::int64_t> peak_total;                        ///< of all categories together
  std::vector<std::map<Category, std::int64_t>> peak, live;    ///< the same, and at the end
};

/// Checks that two runs have the same weights and losses, bit for bit.
inline void check_same_bits(const Outcome& one, const Outcome& other) {
  const bool same_weights = one.weights == other.weights;  // too many to print
  CHECK(same_weights);
  CHECK(one.losses == other.losses);
}

/// A rank's device, and the transport that moves its memory; null: the one that ranks have anyway.
struct Seat {
  DevicePtr device;
  std::unique_ptr<Transport> transport;
};
using TakeSeat = std::function<Seat(Transport&)>;

/// Runs plans by the engine, a thread per rank. Capacity 0 means rendezvous; `bits` are set after
/// the first plan.
/// Without `take_seat`, ranks compute on the CPU.
Outcome run_by_engine(const Training& training, const std::vector<VerifiedPlan>& plans,
                      Batches& batches, int capacity = 0,
                      AllReduce reduction = AllReduce::scatter_reduce,
                      const std::vector<int>& hosts = {}, const Bits& bits = {},
                      const TakeSeat& take_seat = {});
/// Runs an endless plan by the engine, a thread per rank.
Outcome run_endless(const Training& training, const VerifiedPlan& plan, Batches& batches,
                    const Course& course, int capacity = 0);
/// Runs plans by the engine on a single rank, in the calling thread and on this device.
Outcome run_on_one_rank(const Training& training, const std::vector<VerifiedPlan>& plans,
                        Batches& batches, const DevicePtr& device);
/// Runs plans by the serial interpreter, on the CPU or a device.
Outcome run_serially(const Training& training, const std::vector<VerifiedPlan>& plans,
                     Batches& batches, AllReduce reduction = AllReduce::scatter_reduce,
                     const std::vector<int>& hosts = {}, const Bits& bits = {},
                     const DevicePtr& device = {});

}  // namespace plangrad::tests
