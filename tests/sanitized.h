// Whether this build has a sanitizer, under which tests run about ten times as long: grids of many
// runs then take fewer of them.
#pragma once

#include <cstddef>
#include <vector>

namespace plangrad::tests {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::size_t share = 11;
#else
constexpr std::size_t share = 1;
#endif
constexpr bool sanitized = share > 1;

/// All of them. Under a sanitizer, every eleventh of a long list, which meets each value of a grid
/// whose sizes are 2, 3 and 4; of a shorter one, the first, the middle and the last; of one of
/// five or less, all.
template <class T>
std::vector<T> fewer(const std::vector<T>& all) {
  if (!sanitized || all.size() <= 5) return all;
  std::vector<T> some;
  if (all.size() < 3 * share)
    for (std::size_t i = 0; i < 3; ++i) some.push_back(all[i * (all.size() - 1) / 2]);
  else
    for (std::size_t i = 0; i < all.size(); i += share) some.push_back(all[i]);
  return some;
}

/// All of them; under a sanitizer, the first `count`.
template <class T>
std::vector<T> fewer(std::vector<T> all, std::size_t count) {
  if (sanitized && all.size() > count) all.erase(all.begin() + count, all.end());
  return all;
}

}  // namespace plangrad::tests
