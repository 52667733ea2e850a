// Catch2, version 2 (Debian 12) or 3 (elsewhere), under the names that the tests use.
// Not here: main; tests/main.cpp has it.
// Also SKIP_TEST(why), the first line of a test that this machine can't run: ctest counts it as
// skipped, as its CMakeLists.txt looks for the message. Catch2 itself skips since version 3.3.
#pragma once

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::EndsWith;
using Catch::Matchers::Matches;
using Catch::Matchers::StartsWith;
inline auto Contains(const std::string& part) { return ContainsSubstring(part); }
#define SKIP_TEST(why) SKIP("skipped: " << why)
#else
#include <catch2/catch.hpp>
using Catch::Contains;
using Catch::EndsWith;
using Catch::Matches;
using Catch::StartsWith;
#define SKIP_TEST(why)        \
  do {                        \
    SUCCEED();                \
    WARN("skipped: " << why); \
    return;                   \
  } while (false)
#endif
