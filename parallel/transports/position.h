// Position: where a rank is, as it tells the others: at a cell of its row, or at work between
// plans.
// Not here: how long others wait for it (launch.h).
// Chapter 04.
#pragma once

#include <cstdint>

namespace paragrad::parallel {

/// What a rank does between plans that may take long.
enum class Work : std::int16_t { none, preparing, saving, reporting };

struct Position {
  std::int32_t cell = 0;   ///< index in the row; its size at the end of the row
  std::int16_t plan = -1;  ///< number of the plan in the run; -1: never heard of
  Work work = Work::none;

  bool is_known() const { return plan >= 0 || work != Work::none; }
  friend bool operator==(const Position&, const Position&) = default;
};

}  // namespace paragrad::parallel
