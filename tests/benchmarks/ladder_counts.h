// What a rung costs, from the emulator's counters, where this build of the ladder has them; on a
// GPU, and in builds that do not count, there is nothing.
// Not here: what counters mean (cuda/emulator/counted/counters.h). Chapter 12.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#if PLANGRAD_COUNTED
#include "cuda/emulator/counted/counters.h"
#endif

namespace plangrad::benchmarks {

struct RungCount {
  double cached_bytes = 0, all_bytes = 0;  ///< of device memory, with and without a cache
  bool tensor = false;                     ///< there were tensor cores at work
  std::vector<std::string> cells{};        ///< under count_columns
};

#if PLANGRAD_COUNTED

inline constexpr bool can_count = true;
inline const std::vector<std::string> count_columns = {"launches",
                                                       "threads",
                                                       "kB with a cache",
                                                       "kB without",
                                                       "lanes active",
                                                       "sectors per request",
                                                       "bank conflicts",
                                                       "barriers",
                                                       "mma",
                                                       "blocks per SM, and their limit"};

inline void begin_counting() { cuda::emulator::reset_counters(); }

/// The kernels that ran since begin_counting and are complete.
inline RungCount end_counting() {
  using namespace cuda::emulator;
  Counters sum;
  std::string blocks;
  for (const KernelCounters& launch : counters()) {
    if (launch.counts.threads == 0) continue;  // a copy
    sum += launch.counts;
    const int threads = static_cast<int>(launch.block.x * launch.block.y * launch.block.z);
    const Occupancy sm = occupancy(90, threads, launch.shared_bytes());
    blocks += fmt::format("{}{}: {}", blocks.empty() ? "" : "; ", sm.blocks, sm.limit);
  }
  const double requests = static_cast<double>(sum.loads.requests + sum.stores.requests);
  const double sectors = static_cast<double>(sum.loads.sectors + sum.stores.sectors);
  const auto cached = static_cast<double>(sum.device_bytes());
  const auto all = static_cast<double>(sum.sector_bytes());
  return {cached,
          all,
          sum.mmas > 0,
          {fmt::to_string(sum.launches), fmt::to_string(sum.threads),
           fmt::format("{:.1f}", cached / 1e3), fmt::format("{:.1f}", all / 1e3),
           fmt::format("{:.0f}%", 100 * sum.active()), fmt::format("{:.1f}", sectors / requests),
           fmt::to_string(sum.bank_conflicts()), fmt::to_string(sum.barriers),
           fmt::to_string(sum.mmas), blocks}};
}

#else

inline constexpr bool can_count = false;
inline const std::vector<std::string> count_columns;
inline void begin_counting() {}
inline RungCount end_counting() { return {}; }

#endif

}  // namespace plangrad::benchmarks
