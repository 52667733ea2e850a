// SumBook: this rank's gradient sums by (stage, version): open while backwards add to them,
// changing while the other lane reduces, folds or encodes them, finished when a step takes them.
// Not here: where their numbers lie (stage_buffers.h), and the norm of all of them (norms.h).
// Chapters 05, 08 and 10.
#pragma once

#include <map>
#include <set>

#include "parallel/engine/groups.h"
#include "parallel/engine/mailbox.h"
#include "parallel/engine/stores.h"

namespace paragrad::parallel {

class SumBook {
 public:
  /// What the references name must outlive it.
  SumBook(const RowView& row, Engine& engine, Stores& stores, Mailbox& mailbox, Waiting& waiting,
          const Groups& groups, BitOptions& measured)
      : row_(row),
        engine_(engine),
        stores_(stores),
        mailbox_(mailbox),
        waiting_(waiting),
        groups_(groups),
        measured_options_(measured) {}

  /// Adds a gradient, once the other lane has left the sum alone.
  void add(const Made& sum, const Parameter& parameter, const Tensor& dx);
  void reduce(const Instruction& x);
  /// arrived + own, as soon as the one is here and the other lane has no other work on the sum.
  void fold(const Instruction& x);
  void send(const Instruction& x);
  void receive(const Instruction& x);
  /// Frees all of a reduced sum but this rank's shard.
  void drop(const Instruction& x);

  /// Waits until the finished sum is in the store: one that arrived, or this rank's own.
  void finish(const Made& sum);
  /// The step has been made: the sum is gone.
  void end(const Made& sum) { codes_.erase(sum); }

  /// Whether this rank counts a sum in the norm of a group: as the first rank of the group that
  /// holds the stage, or as a holder of a shard. A sum that goes from holder to holder is counted
  /// by the rank that has finished it.
  bool is_counted(const Made& sum, const std::vector<int>& group) const;
  /// What the other lane still does to sums towards a version.
  std::vector<TicketPtr> changes(int version) const;

 private:
  void wait_until_still(const Made& sum) const;
  std::shared_ptr<GroupRun> reduction(const Instruction& x, const Tensor& sum) const;
  void measure(const Made& sum);
  Arriving to_send(const Instruction& x);
  Arriving own_to_send(const Made& sum, bool moves);
  Arriving encoded(const Instruction& x, const Arriving& sum);
  Tensor room_for_code(const BufferCodec& codec, const Tensor& sum) const;

  const RowView& row_;
  Engine& engine_;
  Stores& stores_;
  Mailbox& mailbox_;
  Waiting& waiting_;
  const Groups& groups_;
  BitOptions& measured_options_;
  std::map<Made, Issued> changing_;  // what the other lane does to this rank's own sum
  std::map<Made, Tensor> codes_;     // of this rank's finished sums
  std::set<int> measured_;           // stages whose own sum was measured for a choice of bits
};

}  // namespace paragrad::parallel
