// Reads numbers and names that users type, and turns them into values of JSON and back.
// Not here: what a number means, which its row of a table says. Chapter 06.
#include "parallel/plan/fields.h"

#include <charconv>
#include <nlohmann/json.hpp>

namespace plangrad::parallel {

template <class T>
T read_number(const std::string& word, T lowest, T highest) {
  constexpr double tiny = 1e-30;  // above 0
  T number = 0;
  const char* end = word.data() + word.size();
  auto [stop, problem] = std::from_chars(word.data(), end, number);
  const bool is_number = problem != std::errc::invalid_argument && stop == end;
  const bool fits = problem == std::errc();
  if (is_number && fits && number >= lowest && number <= highest) return number;
  constexpr bool whole = std::is_integral_v<T>;
  const bool too_high = is_number && (fits ? number > highest : word[0] != '-');
  const bool bounded = too_high || static_cast<double>(highest) < (whole ? 2147483647.0 : 1e15);
  std::string range =
      bounded ? text(" from ", lowest, " to ", highest) : text(", ", lowest, " or more");
  if (static_cast<double>(lowest) == tiny)
    range = bounded ? text(" above 0, at most ", highest) : " above 0";
  throw Error(text("expected ", whole ? "a whole number" : "a number", range, ", got ",
                   word.empty() ? "nothing" : word));
}

template int read_number(const std::string&, int, int);
template std::int64_t read_number(const std::string&, std::int64_t, std::int64_t);
template double read_number(const std::string&, double, double);

bool read_yes(const std::string& word) {
  PG_CHECK(word == "true" || word == "false", "expected true or false");
  return word == "true";
}

void check_choice(const std::string& word, const std::vector<std::string>& names) {
  PG_CHECK(std::ranges::count(names, word) > 0, "expected one of ",
           fmt::format("{}", fmt::join(names, ", ")), "; got ", word.empty() ? "nothing" : word,
           autograd::did_you_mean(word, names));
}

const char* name_of(Kind kind) {
  constexpr const char* names[] = {"yes", "whole", "number", "numbers", "choice", "words"};
  return names[static_cast<int>(kind)];
}

std::string flag_of(const std::string& name) {
  std::string flag = "--" + name;
  std::ranges::replace(flag, '_', '-');
  return flag;
}

std::string text_of(const nlohmann::json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return fmt::format("{}", value.get<double>());  // 1e6: 1000000
  if (!value.is_array()) return value.dump();
  std::vector<std::string> words;
  for (const nlohmann::json& each : value) words.push_back(text_of(each));
  return fmt::format("{}", fmt::join(words, ","));
}

nlohmann::json json_of(Kind kind, const std::string& word) {
  switch (kind) {
    case Kind::yes:
    case Kind::whole:
    case Kind::number: return nlohmann::json::parse(word);
    case Kind::numbers: return nlohmann::json::parse("[" + word + "]");
    default: return word;
  }
}

void check_type(Kind kind, const nlohmann::json& value) {
  auto expect = [&](bool right, const char* what) {
    PG_CHECK(right, "expected ", what, ", got ", value.dump());
  };
  switch (kind) {
    case Kind::yes: return expect(value.is_boolean(), "true or false");
    case Kind::whole: return expect(value.is_number_integer(), "a whole number");
    case Kind::number: return expect(value.is_number(), "a number");
    case Kind::numbers:
      expect(value.is_number() || (value.is_array() && !value.empty()),
             "a number, or a list of them");
      for (const nlohmann::json& each : value) expect(each.is_number(), "numbers");
      return;
    default: return expect(value.is_string(), "text");
  }
}

}  // namespace plangrad::parallel
