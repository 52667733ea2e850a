// RunResult: what a rank has to tell of a plan that it ran.
// Not here: what rank 0 makes of all of them (session/exchange.h).
// Chapter 05.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "parallel/codecs/adaptive_bits.h"
#include "parallel/simulation/timeline.h"

namespace paragrad::parallel {

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

  /// What other ranks can use: all but the clock.
  static auto fields(auto& x) {
    return std::tie(x.losses, x.accuracies, x.squares, x.norms, x.stepped, x.bytes_sent, x.order,
                    x.bit_options, x.records);
  }
};

}  // namespace paragrad::parallel
