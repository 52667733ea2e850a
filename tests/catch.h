// Catch2, version 2 (Debian 12) or 3 (elsewhere), under the names that the tests use.
// Not here: main; tests/main.cpp has it.
#pragma once

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
using Catch::Matchers::ContainsSubstring;
inline auto Contains(const std::string& part) { return ContainsSubstring(part); }
#else
#include <catch2/catch.hpp>
using Catch::Contains;
#endif
