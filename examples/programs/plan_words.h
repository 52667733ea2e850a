// Facts of plans in words: sentences of what the verifier has proved of one, and a table of the
// numbers of two, with their differences.
// Not here: the facts themselves (examples/pages/plan_facts.h).
// Chapter 06.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "examples/programs/plan_request.h"
#include "parallel/verifier/verify.h"

namespace plangrad::examples {

/// One sentence for each thing that users ask about a plan: deadlock, sums of gradients, versions,
/// staleness, and what ranks keep.
std::vector<std::string> sentences(const parallel::VerifiedPlan& verified);

/// A plan's name, and its facts as examples/pages/plan_facts.h gives them.
struct NamedFacts {
  std::string name;
  nlohmann::json facts;
};

/// One side of a comparison: a schedule, which the request's flags complete, or a plan's file.
/// throws: Error if `name` is neither
NamedFacts side_of(const PlanRequest& request, const std::string& name);

/// A table: a line for each number, with the plans' names above. A number that ranks differ in is
/// the largest.
std::string compared(const NamedFacts& a, const NamedFacts& b);

/// {"a": {name, facts}, "b": ..., "difference": {name of a number: b's minus a's}}
nlohmann::json compared_json(const NamedFacts& a, const NamedFacts& b);

}  // namespace plangrad::examples
