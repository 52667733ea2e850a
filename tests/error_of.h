// What a call throws, for checks that say more of its message than Catch2's CHECK_THROWS_WITH.
#pragma once

#include <functional>

#include "autograd/error.h"

namespace plangrad::tests {

/// The message of the Error that `body` throws; empty if it throws none.
inline std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const autograd::Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace plangrad::tests
