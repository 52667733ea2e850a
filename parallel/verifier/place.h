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

/// A value's name as one number: what, of which stage, for which microbatch or version.
using Key = std::uint64_t;
constexpr Key key(Value what, int stage, int number) {
  return Key(what) << 60 | Key(stage) << 32 | Key(number);
}

/// The microbatch or version that names what an instruction sends, receives or drops.
inline int number_of(const Instruction& x) { return x.micro >= 0 ? x.micro : x.version; }

/// "the output of stage 1 for microbatch 5"
std::string describe(Value what, int stage, int number);

/// "[0, 1]"
std::string list(const std::vector<int>& numbers);

/// Throws the PlanError that says so and shows the cell.
[[noreturn]] void refuse_text(const char* rule, const Place& place, const std::string& what);

template <class... Parts>
[[noreturn]] void refuse(const char* rule, const Place& place, const Parts&... what) {
  refuse_text(rule, place, autograd::text(what...));
}

}  // namespace paragrad::parallel
