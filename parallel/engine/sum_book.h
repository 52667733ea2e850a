// SumBook: this rank's gradient sums by (stage, version): open while backwards add to them,
// changing while the other lane reduces, folds or encodes them, finished when a step takes them.
// Not here: where their numbers lie (weight_store.h), and the norm of all (loss_and_norm.h).
// Chapters 05, 08 and 10.
#pragma once

#include "parallel/engine/mailbox.h"

namespace plangrad::parallel {

class SumBook {
 public:
  /// The arguments are kept by reference and must outlive it.
  SumBook(RowRun& run, Mailbox& mailbox, Waiting& waiting)
      : run_(run), mailbox_(mailbox), waiting_(waiting) {}

  /// Where a backward's gradients are added: to this sum, or to that of shared parameters, once the
  /// other lane has no work on it.
  Stage::ParameterSink sink(const Made& sum);
  /// Starts the sum over a group; or its shards, if the plan shards sums (ZeRO).
  void reduce(const Instruction& x);
  /// Adds a sum that arrives to this rank's own, once the other lane has no other work on that.
  void fold(const Instruction& x);
  void send(const Instruction& x) { mailbox_.send(x, to_send(x)); }
  void receive(const Instruction& x);
  /// Frees all of a reduced sum but this rank's shard.
  void drop(const Instruction& x);

  /// Waits until the finished sum is in the store: one that arrived, or this rank's own.
  void finish(const Made& sum);
  /// Forgets a sum after the update, which has freed it.
  void end(const Made& sum) { changing_.erase(sum); }

  /// Whether this rank counts a sum in the norm of a group: as the first rank of the group that
  /// holds the stage, or as a holder of a shard. A sum that goes from holder to holder is counted
  /// by the rank that has finished it.
  bool is_counted(const Made& sum, const std::vector<int>& group) const;
  /// Unfinished work of the lane of messages on sums that make `version`.
  std::vector<TicketPtr> changes(int version) const;

 private:
  friend struct TableSizes;  // of tests
  /// Work of the lane of messages on this rank's own sum, and its code if the sum is sent encoded.
  struct Change {
    Issued by;
    Tensor bytes = {};
  };

  void wait_until_still(const Made& sum) const;
  std::shared_ptr<GroupRun> reduction(const Instruction& x, const Tensor& sum) const;
  void measure(const Made& sum);
  Arriving to_send(const Instruction& x);
  Arriving own_to_send(const Made& sum, bool moves);
  Arriving encoded(const Instruction& x, const Arriving& sum);

  RowRun& run_;
  Mailbox& mailbox_;
  Waiting& waiting_;
  std::map<Made, Change> changing_;
  std::set<int> measured_;  // stages whose own sum was measured for a choice of bits
};

}  // namespace plangrad::parallel
