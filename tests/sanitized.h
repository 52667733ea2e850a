// Whether this build has a sanitizer, under which tests run about ten times as long: grids of many
// runs then take fewer of them.
#pragma once

#include <vector>

namespace paragrad::tests {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool sanitized = true;
#else
constexpr bool sanitized = false;
#endif

/// All of them. Under a sanitizer, every fifth of six or more, which meets each value of a grid
/// whose sizes are 2, 3 and 4; a shorter list has nothing but different values, and is left whole.
template <class T>
std::vector<T> fewer(const std::vector<T>& all) {
  std::vector<T> some;
  const std::size_t every = sanitized && all.size() > 5 ? 5 : 1;
  for (std::size_t i = 0; i < all.size(); i += every) some.push_back(all[i]);
  return some;
}

}  // namespace paragrad::tests
