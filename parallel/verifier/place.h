// Place: a cell of a plan, and how the verifier's parts say that it breaks a rule.
// Not here: the rules (verify and its parts).
// Chapter 06.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "autograd/error.h"
#include "parallel/verifier/verify.h"

namespace paragrad::parallel {

/// A cell of a plan; an index of -1 is the end of the row.
struct Place {
  const Plan& plan;
  int rank, index;

  const Instruction& instruction() const { return plan.rows[rank][index]; }
};

/// "[0, 1]"
std::string list(const std::vector<int>& numbers);

/// Throws the PlanError that says so and shows the cell.
[[noreturn]] void refuse_text(const char* rule, const Place& place, const std::string& what);

template <class... Parts>
[[noreturn]] void refuse(const char* rule, const Place& place, const Parts&... what) {
  refuse_text(rule, place, autograd::text(what...));
}

}  // namespace paragrad::parallel
