// Session: trains one run from its start, or from a checkpoint, to its end or a stop: plan after
// plan, with validations, checkpoints and reports between them. Rank 0 leads: what is to be done
// next is its order, which all ranks carry out together.
// Not here: flags, models and data, which a program brings. Chapter 05.
//
// The room parallel/session is a run from its first update to its last:
// session_lead.cpp   rank 0: what is done when, and what is shown
// session_rank.h     every rank: carries out orders.h; plans.h: each plan is made and verified once
// state_files.h      weights and optimizer state to a checkpoint and back; codec_state.h: codecs'
// exchange.h         all results of a plan; run_log.h, run_report.h: what a run leaves
// pruner.h           what is asked between plans, so that a run can be pruned on its way
#pragma once

#include "parallel/session/session_rank.h"

namespace paragrad::parallel {

/// Steps of a plan that covers about a second, so that progress is seen and an interruption is
/// heard. A plan fills and drains: in a delayed schedule, whose updates overlap, one of slow steps
/// still has `fewest` of them, or the overlap would be gone. Others wait at each update anyway.
///   like: a plan of the schedule
int steps_in_a_second(double seconds_per_step, const Plan& like, int fewest);

class Session {
 public:
  /// Every rank makes one, all with equal settings; `training`, `transport` and `data` must outlive
  /// it. Nothing has been written when it is there.
  /// throws: Error if the run is impossible
  Session(const Training& training, Transport& transport, DevicePtr device, RunData& data,
          const SessionSettings& settings)
      : rank_(training, transport, std::move(device), data, settings) {}

  /// Returns whether the run has come to its end. All ranks call it together.
  bool train();

 private:
  SessionRank rank_;
};

}  // namespace paragrad::parallel
