// Good plans, and the rule that each of them trains by, for tests of the verifier.
// Here too: how a test breaks one. Not here: the examples themselves (plans/*.plan).
#pragma once

#include "parallel/verifier/verify.h"
#include "tests/parallel/support/scalar_model.h"

namespace plangrad::tests {

/// A file of tests/parallel/plans.
std::string plan_text(const std::string& name);
/// A plan as text, without the line that explains it.
std::string golden(const std::string& name);

struct PlanCase {
  std::string name;
  parallel::Plan plan;
  ReadVersion version;           ///< what forwards read
  ReadVersion of_backward = {};  ///< what backwards read, if it is newer
};

std::vector<PlanCase> good_plans();

/// `text` with the first `from` after `after` replaced; it must be there.
std::string replaced(std::string text, const std::string& from, const std::string& to,
                     const std::string& after = "");

/// Checks that the plan breaks this rule, in these words, and returns where.
parallel::PlanError check_broken(const std::string& text, const std::string& rule,
                                 const std::string& words);
/// Checks that the plan breaks this rule, at this cell ("" for the end of a row), in these words.
void check_refused(const std::string& text, const std::string& rule, int rank,
                   const std::string& cell, const std::string& words);

}  // namespace plangrad::tests
