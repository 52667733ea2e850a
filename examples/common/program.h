// What every program shares: flags that check their values, and how errors reach the user.
// Not here: which flags there are. Each program describes its own.
// Chapter 02.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "autograd/error.h"

namespace paragrad::examples {

using autograd::text;

/// What is wrong with `value`, which should be a number of type T in [lowest, highest]; empty:
/// nothing. T: int, std::int64_t or double.
template <class T>
std::string problem_of_number(const std::string& value, T lowest, T highest);

/// A check that the whole value is a number of type T in [lowest, highest].
template <class T>
CLI::Validator number_between(T lowest, T highest) {
  return {[=](const std::string& value) { return problem_of_number(value, lowest, highest); }, ""};
}

/// Describes flags with their defaults to a program. Given twice, the last one counts. Where `what`
/// says "(default: ...)", the value follows from others and has no default of its own.
class Flags {
 public:
  explicit Flags(CLI::App& app);

  /// The heading in --help of the flags that follow.
  void group(const std::string& name) { app_.option_defaults()->group(name); }

  /// A whole number from `lowest` on.
  template <class T>
  CLI::Option* whole(const char* name, T& value, std::type_identity_t<T> lowest, const char* what) {
    return number<T>(name, value, lowest, std::numeric_limits<T>::max(), what)->type_name("N");
  }
  /// A finite number in [lowest, highest].
  template <class T = double>
  CLI::Option* number(const char* name, T& value, std::type_identity_t<T> lowest,
                      std::type_identity_t<T> highest, const char* what) {
    CLI::Option* option = app_.add_option(name, value, what)->type_name("X");
    option->check(number_between(lowest, highest));
    if (std::string(what).find("(default: ") == std::string::npos) option->capture_default_str();
    return option;
  }
  /// A name of a file or folder, or other text; `kind` is what --help calls it.
  template <class T>
  CLI::Option* words(const char* name, T& value, const char* kind, const std::string& what) {
    return app_.add_option(name, value, what)->type_name(kind);
  }
  /// One of `names`.
  void choice(const char* name, std::string& value, const std::vector<std::string>& names,
              const char* what);
  /// A flag without a value.
  void yes(const char* name, bool& value, const char* what);

 private:
  CLI::App& app_;
};

/// Runs body(), which parses and works, and returns its exit status. An error becomes one line on
/// stderr and status 1; --help prints the flags and is no error.
int run_program(const CLI::App& app, const std::function<int()>& body);

}  // namespace paragrad::examples
