// Whether this build has a sanitizer, under which tests run about ten times as long: grids of many
// runs then take fewer of them.
#pragma once

namespace paragrad::tests {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool sanitized = true;
#else
constexpr bool sanitized = false;
#endif

}  // namespace paragrad::tests
