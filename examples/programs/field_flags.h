// Flags for the fields of a table. Not here: the tables (parallel/schedules/plan_spec.h,
// parallel/simulation/costs.h).
// Chapter 06.
#pragma once

#include "examples/programs/program.h"
#include "parallel/plan/fields.h"

namespace plangrad::examples {

/// The default that --help shows: none if it follows from other flags, which `what` says.
template <class Object>
std::string default_of(const parallel::Field<Object>& field) {
  if (field.usual) return field.usual;
  const std::string what = field.what, all = field.show(Object());
  return what.find("(default: ") == what.npos ? all.substr(0, all.find(',')) : "";
}

/// Adds a flag that sets the field by take(field, word). If it is given twice, the last one counts.
///   who: what has this field, if not all have
template <class Object, class Take>
void add_field(Flags& flags, const parallel::Field<Object>& field, Object& object,
               const std::string& who, const Take& take) {
  std::string what = who + field.what + (field.more ? field.more() : "");
  if (field.choices) what += fmt::format("; one of {}", fmt::join(field.choices(), ", "));
  if (field.yes) return flags.yes(field.flag_name().c_str(), *field.yes(object), what);
  flags
      .taken(field.flag_name(), field.sign, what,
             [&field, take](const std::string& word) { take(field, word); })
      ->check(checked_by([&field](const std::string& word) {
        Object scratch;
        field.take(scratch, word);
      }))
      ->default_str(default_of(field));
}

}  // namespace plangrad::examples
