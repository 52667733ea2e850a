// PlantedLoss: a transport whose rank can be lost on purpose, for lessons and tests.
// Not here: when (examples/elastic/elastic.h), and what the others do (session).
// Chapter 15.
#pragma once

#include <atomic>
#include <csignal>

#include "parallel/transports/launch.h"

namespace plangrad::examples {

using namespace plangrad::parallel;

/// Passes everything on to another transport until the rank is lost, which then ends in its next
/// cell.
class PlantedLoss : public TransportAround {
 public:
  /// `inner` must outlive it. `whole_process`: the rank is a process, which kills itself.
  PlantedLoss(Transport& inner, bool whole_process)
      : TransportAround(inner), whole_process_(whole_process) {}

  /// Loses the rank as soon as it says where it is in its row.
  void lose() { due_ = true; }

  std::unique_ptr<Request> together(Joint what, const std::vector<int>& ranks, int channel,
                                    const autograd::Tensor& x, const Mark& after) override {
    return inner_.together(what, ranks, channel, x, after);
  }
  std::int64_t piece_bytes() const override { return inner_.piece_bytes(); }
  void prepare(const Connections& connections) override { inner_.prepare(connections); }
  /// A thread can't be killed, so its rank throws; a process can.
  /// throws: RankLost, once, if the rank is lost
  void publish(Position position) override {
    if (due_.exchange(false)) {
      if (whole_process_) std::raise(SIGKILL);
      throw RankLost("is lost, as --lose asks");
    }
    inner_.publish(position);
  }

 private:
  const bool whole_process_;
  std::atomic<bool> due_ = false;
};

}  // namespace plangrad::examples
