// Whether this build has a sanitizer, under which tests run about ten times as long: grids of many
// runs then take fewer of them.
#pragma once

#include <cstddef>
#include <vector>

namespace paragrad::tests {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::size_t share = 11;
#else
constexpr std::size_t share = 1;
#endif
constexpr bool sanitized = share > 1;

/// All of them. Under a sanitizer, every eleventh of six or more: in a long list, that meets each
/// value of a grid whose sizes are 2, 3 and 4. A shorter list has nothing but different values, and
/// is left whole.
template <class T>
std::vector<T> fewer(const std::vector<T>& all) {
  std::vector<T> some;
  const std::size_t step = all.size() > 5 ? share : 1;
  for (std::size_t i = 0; i < all.size(); i += step) some.push_back(all[i]);
  return some;
}

/// All of them; under a sanitizer, the first `count`.
template <class T>
std::vector<T> fewer(std::vector<T> all, std::size_t count) {
  if (sanitized && all.size() > count) all.erase(all.begin() + count, all.end());
  return all;
}

}  // namespace paragrad::tests
