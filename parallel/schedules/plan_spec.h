// PlanSpec: a plan as a user asks for it: a schedule, the fields of its layout, and which of them
// were given. Not here: what follows for a run (examples/programs/run_layout.h), and costs
// (simulation/costs.h). Chapter 06.
#pragma once

#include <set>

#include "parallel/plan/fields.h"
#include "parallel/schedules/layout.h"

namespace plangrad::parallel {

struct Plan;
struct Schedule;

template <>
struct AsText<Setting> : AsChoice<Setting, settings> {};
template <>
struct AsText<Placement> : AsChoice<Placement, placements> {};

/// A plan as users ask for it: a schedule, its layout, and which of that was given.
struct PlanSpec {
  std::string schedule = {};  ///< the schedule's name; empty: not given
  Layout layout = {};
  bool endless = false;
  /// Names of the fields that a user gave; all others may follow from them.
  std::set<std::string> given = {};

  bool gives(const std::string& field) const { return given.contains(field); }
  /// The schedule's traits; before a schedule is found, those that most schedules have.
  const Schedule& behaviour() const;
  bool cyclic() const;
  std::string setting() const;
  /// Whether microbatches take turns, which the gap spaces.
  bool has_turns() const;
  /// The schedule's name, with its setting or the ranks that it has lost.
  std::string title() const;
  /// throws: Error if a field was given that the schedule does not have
  void check_own_fields() const;
  /// The layout, with the updates and the cyclic microbatches that follow where nobody gave them.
  Layout completed() const;
  /// The plan of this layout. throws: Error, also if an endless one does not exist
  Plan plan_with(const Layout& layout) const;
};

using SpecField = Field<PlanSpec>;

/// The field for a member of the layout.
template <auto member>
constexpr SpecField in_layout(const char* name, const char* what, const FieldTraits& traits = {}) {
  return row<&PlanSpec::layout, member>(name, what, traits);
}

/// All fields, in the order of --help: those that all schedules have, and their own.
const std::vector<const SpecField*>& spec_fields();

/// Lists the schedules that have a field: "a, b and c".
std::string names_with(const SpecField& field);

/// Sets a field, and notes that it was given. throws: Error that says what can be typed
void give(PlanSpec& request, const SpecField& field, const std::string& word);

}  // namespace plangrad::parallel
