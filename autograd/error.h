// Error: the one exception of plangrad; PG_CHECK, which throws it; what its messages are made of.
// Not here: recovery. A message says what was expected, what came, and what to do about it.
// Chapters 01 and 02.
#pragma once

#include <source_location>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace plangrad::autograd {

/// An error: one line for the user that says what went wrong, and the place in the code.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message,
                 std::source_location where = std::source_location::current())
      : std::runtime_error(message), where_(where) {}

  const std::source_location& where() const { return where_; }

 private:
  std::source_location where_;
};

/// Writes all parts, each with operator<<, into one string.
template <class... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

/// A number of things in words: "1 rank", "2 microbatches", "3 losses".
inline std::string counted(std::int64_t number, const std::string& thing) {
  const bool hisses = thing.ends_with("ch") || thing.ends_with('s');
  return text(number, ' ', thing, number == 1 ? "" : hisses ? "es" : "s");
}

/// Throws an Error made of the other arguments unless `condition` is true. On in every build.
#define PG_CHECK(condition, ...)                                                  \
  do {                                                                            \
    if (!(condition)) [[unlikely]]                                                \
      throw ::plangrad::autograd::Error(::plangrad::autograd::text(__VA_ARGS__)); \
  } while (false)

/// Returns "; did you mean 1f1b?" with the known names that are nearest to `word`, at most two
/// letters away; empty if none is near. Upper and lower case are alike, and a short word must have
/// more letters right than wrong.
std::string did_you_mean(const std::string& word, const std::vector<std::string>& names);

}  // namespace plangrad::autograd
