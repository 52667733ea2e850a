// Plans in words: sentences of what the verifier has proved of one; a table of the numbers of two,
// with their differences; the flags that train one that `plan search` found, as a command for
// people, and as words that --plan-from reads. Not here: the facts (examples/pages/plan_facts.h),
// the search (plan_search.h), and what a run makes of its flags (run_layout.h). Chapters 06 and 16.
#pragma once

#include <nlohmann/json.hpp>

#include "examples/programs/plan_request.h"
#include "parallel/verifier/verify.h"

namespace plangrad::examples {

/// One sentence for each thing that users ask about a plan: deadlock, sums of gradients, versions,
/// staleness, and what ranks keep.
std::vector<std::string> sentences(const parallel::VerifiedPlan& verified);

/// Describes each schedule and names its paper. The first column has the names alone, which
/// completion.bash reads.
std::string schedule_words();

/// A plan's name, and its facts as examples/pages/plan_facts.h gives them.
struct NamedFacts {
  std::string name;
  nlohmann::json facts;
};

/// Both sides of a comparison, each a plan's file or a schedule. Flags complete a schedule; sizes
/// that they leave open are those of the other side's file. throws: Error if a name is neither
std::array<NamedFacts, 2> sides_of(PlanRequest request, const std::array<std::string, 2>& names);

/// Says in which sizes two plans differ; empty: in none.
std::string size_note(const NamedFacts& a, const NamedFacts& b);

/// A table: a line for each number, with the plans' names above. A number that ranks differ in is
/// the largest.
std::string compared(const NamedFacts& a, const NamedFacts& b);

/// {"a": {name, facts}, "b": ..., "difference": {name of a number: b's minus a's}}
nlohmann::json compared_json(const NamedFacts& a, const NamedFacts& b);

/// The command that a person types: flags that are false or 0 are left out, but --clip.
///   flags: objects that map flags to values
std::string command_of(const std::string& program, const std::vector<nlohmann::json>& flags);

/// A plan that a search has found, as words of its program's command.
struct RowWords {
  std::vector<std::string> model;   ///< --layers=4 ...: its shape, of which costs and cuts are
  std::vector<std::string> layout;  ///< --schedule=1f1b ..., its batch and its type
  std::int64_t vocabulary = 0;      ///< of the model; 0: none, or the file does not say
};

/// Reads a row of what `plan search --json` printed, the first one is row 1. It takes no flags but
/// those that a search writes, as the file may be a stranger's.
/// throws: Error if the file is none, has no such row, or is for another program
RowWords row_words(const std::filesystem::path& file, int row, const std::string& program);

}  // namespace plangrad::examples
