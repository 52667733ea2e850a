// Compares names by their edit distance: the fewest letters to insert, to remove, to replace, or to
// swap with the next one. Chapter 02.
#include "autograd/error.h"

#include <algorithm>
#include <cctype>
#include <numeric>

namespace plangrad::autograd {

static std::string lower(std::string word) {
  for (char& letter : word)
    letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return word;
}

/// Fills a table row by row: entry j of row i is the distance of a's first i letters from b's first
/// j. Only the last two rows are kept.
static std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> older, before(b.size() + 1), now(b.size() + 1);
  std::iota(before.begin(), before.end(), 0);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    now[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = before[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      now[j] = std::min({before[j] + 1, now[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        now[j] = std::min(now[j], older[j - 2] + 1);
    }
    older = before;
    before = now;
  }
  return before.back();
}

std::string did_you_mean(const std::string& word, const std::vector<std::string>& names) {
  std::size_t nearest = 2;
  std::string all;
  for (const std::string& name : names) {
    const std::size_t distance = edit_distance(lower(word), lower(name));
    if (distance > nearest || 2 * distance >= std::max<std::size_t>(1, name.size())) continue;
    if (distance < nearest) all.clear();
    nearest = distance;
    all += (all.empty() ? "" : " or ") + name;
  }
  return all.empty() ? "" : "; did you mean " + all + "?";
}

}  // namespace plangrad::autograd
