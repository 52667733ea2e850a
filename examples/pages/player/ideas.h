// Ideas: for each schedule the sentence that explains it, its paper, and the formula of its bubble.
// Not here: the schedules (schedules/). Chapters 05 to 09.
#pragma once

#include "parallel/schedules/schedule.h"

namespace plangrad::examples {

using namespace plangrad::parallel;

/// The bubble of a schedule whose stages are alike and whose messages take no time.
struct BubbleFormula {
  std::string letters;  ///< "(D - 1) / (M + D - 1)"
  std::string numbers;  ///< "3 / (8 + 3)"
  std::string where;    ///< what the letters mean, and when it holds
  double value = 0;
};

struct Idea {
  const char* schedule;
  const char* sentence;
  const char* paper;
  /// null: there is no short formula
  std::optional<BubbleFormula> (*bubble)(const Schedule&, const Layout&) = nullptr;
};

/// The idea of a schedule; null if nobody wrote it down, as for a schedule of one's own.
const Idea* find_idea(const std::string& schedule);
/// The formula with a layout's numbers; nullopt if the schedule has none, or not for this layout.
std::optional<BubbleFormula> bubble_formula(const std::string& schedule, const Layout& layout);

}  // namespace plangrad::examples
