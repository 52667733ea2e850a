// Profile: what --profile tells: where an update's time went, kernel by kernel, beside what the
// machine could do. Not here: counting (profiled_device.h); what ranks wait for
// (simulation/breakdown.h). Chapter 03.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "examples/profile/profiled_device.h"
#include "parallel/session/observer.h"

namespace plangrad::examples {

using namespace parallel;

/// What one rank's kernels took, all counted updates together.
struct RankProfile {
  int updates = 0, threads = 1;
  double seconds = 0;  ///< time of the rank's updates: in kernels, and between them
  DeviceRates rates;
  KernelTable kernels, beside;  ///< beside: the kernels of the rank's message lane
  static auto fields(auto& x) {
    return std::tie(x.updates, x.threads, x.seconds, x.rates, x.kernels, x.beside);
  }
  /// The seconds between kernels: graphs, memory, messages, waiting.
  double between() const;
};

/// Reads a device's profile, and measures the device's rates.
/// throws: Error if the device has no profile
RankProfile profile_found(const autograd::Device& device);

/// For summary.json, "profile": each rank's updates, seconds, rates and kernels, the longest first.
nlohmann::json profile_json(const std::vector<RankProfile>& ranks);

/// One update of all ranks together, as a line about the limits and a Markdown table whose parts
/// add up to the whole. Kinds of kernels below half a percent of the time share a row.
std::string profile_table(const std::vector<RankProfile>& ranks);

/// Counts while ranks train, and tells at the end. Their devices are of profiled_device().
class Profile : public AskingObserver<Nothing, RankProfile> {
 public:
  const char* name() const override { return "profile"; }
  void trains(SessionRank& rank, bool begins) override;
  void ended(Lead& lead) override;

 private:
  RankProfile carry_out(SessionRank& rank, const Nothing&) override;

  int before_ = 0;  // updates
};

}  // namespace plangrad::examples
