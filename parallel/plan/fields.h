// Field: a member that users can name, with its range and its words. A struct has one table of
// fields, which command lines, JSON, saved flags and pages walk: none of these knows a field of its
// own. Not here: the tables (schedules/plan_spec.cpp, simulation/costs.cpp). Chapter 06.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <type_traits>

#include "parallel/plan/codec_spec.h"

namespace plangrad::parallel {

enum class Kind { yes, whole, number, numbers, choice, words };
const char* name_of(Kind kind);

/// Reads a number of type T in [lowest, highest].
/// throws: Error that names this range, without a bound that nobody would type
template <class T>
T read_number(const std::string& word, T lowest, T highest);
/// throws: Error unless the word is "true" or "false"
bool read_yes(const std::string& word);
/// throws: Error that lists the names, unless the word is one of them
void check_choice(const std::string& word, const std::vector<std::string>& names);

// ---- how each type of member is written; a new type needs another of these ----
/// A number, or yes and no.
template <class T>
struct AsText {
  static constexpr bool is_yes = std::is_same_v<T, bool>, is_whole = std::is_integral_v<T>;
  static constexpr Kind kind = is_yes ? Kind::yes : is_whole ? Kind::whole : Kind::number;
  static constexpr const char* sign = is_yes ? "" : is_whole ? "N" : "X";
  static constexpr double most = is_whole ? 2147483647.0 : 1e30;
  static std::string show(const T& value) { return fmt::format("{}", value); }
  static T read(const std::string& word, double least, double highest) {
    if constexpr (is_yes)
      return read_yes(word);
    else
      return read_number<T>(word, static_cast<T>(least), static_cast<T>(highest));
  }
};

/// Numbers with commas between them.
template <class T>
struct AsText<std::vector<T>> {
  static constexpr Kind kind = Kind::numbers;
  static constexpr const char* sign = "X,X,...";
  static constexpr double most = std::is_same_v<T, int> ? AsText<int>::most : 1e15;
  static std::string show(const std::vector<T>& list) {
    return fmt::format("{}", fmt::join(list, ","));
  }
  static std::vector<T> read(const std::string& words, double least, double highest) {
    std::vector<T> list;
    for (const std::string& word : split(words, ','))
      list.push_back(AsText<T>::read(word, least, highest));
    return list;
  }
};

/// A value that parse() reads from text and print() writes.
template <class T, T (*parse)(const std::string&), std::string (*print)(const T&)>
struct AsParsed {
  static constexpr Kind kind = Kind::words;
  static constexpr const char* sign = "NAME";
  static constexpr double most = 0;
  static std::string show(const T& value) { return print(value); }
  static T read(const std::string& word, double, double) { return parse(word); }
};
template <>
struct AsText<CodecSpec> : AsParsed<CodecSpec, parse_codec, print> {};

template <>
struct AsText<std::string> {
  static constexpr Kind kind = Kind::words;
  static constexpr const char* sign = "TEXT";
  static constexpr double most = 0;
  static std::string show(const std::string& value) { return value; }
  static std::string read(const std::string& word, double, double) { return word; }
};

/// One of the values that have a name in a map.
template <class T, const std::map<std::string, T>& (*all)()>
struct AsChoice {
  static constexpr Kind kind = Kind::choice;
  static constexpr const char* sign = "NAME";
  static constexpr double most = 0;
  static std::vector<std::string> choices() {
    std::vector<std::string> names;
    for (const auto& [name, value] : all()) names.push_back(name);
    return names;
  }
  static std::string show(const T& value) {
    for (const auto& [name, each] : all())
      if (each == value) return name;
    return "";
  }
  static T read(const std::string& word, double, double) {
    check_choice(word, choices());
    return all().at(word);
  }
};

/// A value that may be absent, which is shown as "".
template <class T>
struct AsText<std::optional<T>> : AsText<T> {
  static std::string show(const std::optional<T>& value) {
    return value ? AsText<T>::show(*value) : "";
  }
};

// ---- a field ----
/// What only some fields have.
struct FieldTraits {
  double least = 0, most = std::numeric_limits<double>::infinity();
  const char* flag = nullptr;       ///< its flag; null: as the name
  const char* usual = nullptr;      ///< the default in --help; null: what a new Object has
  const char* sign = nullptr;       ///< what stands for the value in --help, "N"; null: the type's
  const char* thing = nullptr;      ///< what an Object without the field lacks; null: all have it
  bool of_plans = false;            ///< training finds it elsewhere
  std::string (*more)() = nullptr;  ///< what --help lists after `what`
};

/// A row of a table of fields: a member of Object that users can name, read and written as text.
template <class Object>
struct Field : FieldTraits {
  const char* name;  ///< its name in JSON, "data_parallel"; its flag is --data-parallel
  const char* what;  ///< its line in --help
  Kind kind;
  std::string (*show)(const Object&);
  void (*read)(Object&, const std::string& word, double least, double most);
  std::vector<std::string> (*choices)() = nullptr;  ///< the words of a Kind::choice
  bool* (*yes)(Object&) = nullptr;                  ///< the member of a Kind::yes

  std::string flag_name() const;
  /// Sets the member to what a user typed. throws: Error that says what can be typed
  void take(Object& object, const std::string& word) const { read(object, word, least, most); }
  /// Whether the member differs from what it is in a new object.
  bool is_set(const Object& object) const { return show(object) != show(Object()); }
};

/// --data-parallel for data_parallel.
std::string flag_of(const std::string& name);
template <class Object>
std::string Field<Object>::flag_name() const {
  return flag ? flag : flag_of(name);
}

/// The field of this name; null if there is none.
template <class Object>
const Field<Object>* find(const std::vector<const Field<Object>*>& fields,
                          const std::string& name) {
  for (const Field<Object>* field : fields)
    if (field->name == name) return field;
  return nullptr;
}

// ---- JSON ----
/// A JSON value as users type it.
std::string text_of(const nlohmann::json& value);
nlohmann::json json_of(Kind kind, const std::string& word);
/// throws: Error that says what is expected, if the value's type does not fit
void check_type(Kind kind, const nlohmann::json& value);

// ---- rows of a table ----
template <class Member>
struct OwnerOf;
template <class Object, class Member>
struct OwnerOf<Member Object::*> {
  using type = Object;
};

/// The member at the end of a path: at<&PlanSpec::layout, &Layout::stages>(spec).
template <auto first, auto... rest>
constexpr auto& at(auto& object) {
  if constexpr (sizeof...(rest) == 0)
    return object.*first;
  else
    return at<rest...>(object.*first);
}

/// The field for a member that Text writes and reads.
template <class Text, auto first, auto... rest>
constexpr auto row_as(const char* name, const char* what, FieldTraits traits = {}) {
  using Object = typename OwnerOf<decltype(first)>::type;
  if (!traits.sign) traits.sign = Text::sign;
  Field<Object> field{traits,
                      name,
                      what,
                      Text::kind,
                      [](const Object& object) { return Text::show(at<first, rest...>(object)); },
                      [](Object& object, const std::string& word, double least, double most) {
                        at<first, rest...>(object) =
                            Text::read(word, least, std::min(most, Text::most));
                      }};
  if constexpr (Text::kind == Kind::choice) field.choices = Text::choices;
  if constexpr (Text::kind == Kind::yes)
    field.yes = [](Object& object) { return &at<first, rest...>(object); };
  return field;
}

/// The field for a member whose type says how it is written.
template <auto first, auto... rest>
constexpr auto row(const char* name, const char* what, const FieldTraits& traits = {}) {
  using Object = typename OwnerOf<decltype(first)>::type;
  using T = std::remove_cvref_t<decltype(at<first, rest...>(std::declval<Object&>()))>;
  return row_as<AsText<T>, first, rest...>(name, what, traits);
}

}  // namespace plangrad::parallel
