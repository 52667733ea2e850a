// NcclOrder: one order of the calls of NCCL for all ranks, which rank 0 gives.
// Not here: the calls themselves (nccl_transport.h).
// Chapter 13; Sergeev and Del Balso 2018, "Horovod", whose rank 0 orders sums.
#pragma once

#include <nccl.h>

#include <bitset>
#include <compare>
#include <deque>
#include <map>
#include <memory>
#include <optional>

#include "parallel/transports/transport.h"

namespace plangrad::cuda {

/// Words about calls have channels of their own, above those of a plan's groups.
inline constexpr int asking = parallel::control_channel / 2, placing = asking + 1;

/// A message or a sum that all its ranks are ready to make.
struct NcclCall {
  static constexpr int most_ranks = 1024;
  /// What tells calls apart that a rank makes at a time.
  struct Key {
    int first = 0, last = -1;  ///< sender and receiver; or the first member of a sum, and -1
    int channel = 0;
    friend auto operator<=>(const Key&, const Key&) = default;
  };

  Key key;
  std::int64_t sent = 0, expected = 0;  ///< bytes, as the two ends of a message have them
  std::bitset<most_ranks> ranks{};      ///< who makes the call
  ncclUniqueId id{};                    ///< of the communicator, until its ranks have joined
};

/// A rank that knows that all ranks of a call are ready asks rank 0 to place it. Rank 0 takes what
/// it hears, one after the other, and tells the ranks of each call. Words between two ranks keep
/// their order, so any two calls have the same order on each rank that makes both.
class NcclOrder {
 public:
  /// throws: Error if there are too many ranks
  explicit NcclOrder(parallel::Transport& inner);

  void ask(const NcclCall& call);
  /// The next call of this rank; none if that is not known yet. On rank 0, also passes words on.
  std::optional<NcclCall> next();

 private:
  /// A word in flight; the request ends before the memory that it uses.
  struct Word {
    NcclCall call;
    std::unique_ptr<parallel::Request> request;
  };

  void say(int rank, int channel, const NcclCall& call);
  void hear(int rank);
  void place(const NcclCall& call);

  parallel::Transport& inner_;
  std::map<int, Word> heard_;  // by rank, the word that comes next
  std::deque<Word> said_;
  std::deque<NcclCall> placed_;  // this rank's
};

}  // namespace plangrad::cuda
