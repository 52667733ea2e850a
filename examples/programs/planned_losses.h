// Planned losses: which ranks a run loses on purpose, and when: --lose RANK@UPDATE[-BACK],...
// Not here: how a rank is lost (parallel/transports/planted_loss.h), and how a run goes on
// (elastic.h). Chapter 15.
#pragma once

#include <string>
#include <vector>

#include "parallel/engine/engine.h"
#include "parallel/transports/planted_loss.h"

namespace plangrad::examples {

struct PlannedLoss {
  int rank = 0;    ///< counted over the ranks that the run began with
  int update = 1;  ///< the one that is under way when the rank is lost
  int back = 0;    ///< the rank is there again after this update; 0: never
};

/// Parses "2@8,0@12-20": rank 2 is lost in update 8, rank 0 in update 12, to be back after 20.
/// throws: Error if the text is something else
std::vector<PlannedLoss> parse_losses(const std::string& words);
/// The inverse of parse_losses.
std::string print(const std::vector<PlannedLoss>& losses);

/// Calls lose() as soon as the rank has done a computation of the loss's update.
parallel::Prolong losing(const PlannedLoss& loss, parallel::PlantedLoss& transport,
                         parallel::Prolong before);

}  // namespace plangrad::examples
