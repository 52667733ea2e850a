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

/// All of them; under a sanitizer every fifth, which meets each value of a grid whose sizes are 2,
/// 3 and 4.
template <class T>
std::vector<T> fewer(const std::vector<T>& all) {
  std::vector<T> some;
  for (std::size_t i = 0; i < all.size(); i += sanitized ? 5 : 1) some.push_back(all[i]);
  return some;
}

}  // namespace paragrad::tests
