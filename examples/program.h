// What every program shares: flags that check their values, and how errors reach the user.
// Not here: which flags there are. Each program describes its own.
#pragma once

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <iostream>
#include <limits>
#include <string>
#include <vector>

#include "autograd/error.h"

namespace paragrad::examples {

using autograd::text;

/// A check that the whole value is a number of type T in [lowest, highest].
template <class T>
CLI::Validator number_between(T lowest, T highest) {
  auto check = [=](const std::string& value) {
    T number = 0;
    const char* end = value.data() + value.size();
    auto [stop, problem] = std::from_chars(value.data(), end, number);
    bool good = problem == std::errc() && stop == end && number >= lowest && number <= highest;
    const char* kind = std::is_integral_v<T> ? "a whole number" : "a number";
    return good ? "" : text("expected ", kind, " from ", lowest, " to ", highest, ", got ", value);
  };
  return {check, ""};
}

/// Describes flags with their defaults to a program. Given twice, the last one counts.
class Flags {
 public:
  explicit Flags(CLI::App& app) : app_(app) {
    app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }

  /// The heading in --help of the flags that follow.
  void group(const std::string& name) { app_.option_defaults()->group(name); }

  /// A whole number from `lowest` on.
  template <class T>
  CLI::Option* whole(const char* name, T& value, T lowest, const char* what) {
    return app_.add_option(name, value, what)
        ->check(number_between(lowest, std::numeric_limits<T>::max()))
        ->capture_default_str()
        ->type_name("N");
  }
  /// A finite number in [lowest, highest].
  CLI::Option* number(const char* name, double& value, double lowest, double highest,
                      const char* what) {
    return app_.add_option(name, value, what)
        ->check(number_between(lowest, highest))
        ->capture_default_str()
        ->type_name("X");
  }
  /// A name of a file or folder, or other text; `kind` is what --help calls it.
  template <class T>
  CLI::Option* words(const char* name, T& value, const char* kind, const std::string& what) {
    return app_.add_option(name, value, what)->type_name(kind);
  }
  /// One of `names`.
  void choice(const char* name, std::string& value, const std::vector<std::string>& names,
              const char* what) {
    words(name, value, "NAME", what)->check(CLI::IsMember(names))->capture_default_str();
  }
  /// A flag without a value.
  void yes(const char* name, bool& value, const char* what) { app_.add_flag(name, value, what); }

 private:
  CLI::App& app_;
};

/// Runs body(), which parses and works, and returns its exit status. An error becomes one line on
/// stderr and status 1; --help prints the flags and is no error.
template <class Body>
int run_program(CLI::App& app, Body&& body) {
  try {
    int status = body();
    if (!std::cout.flush())
      throw autograd::Error("can't write to standard output; is the disk full?");
    return status;
  } catch (const CLI::CallForHelp&) {
    std::cout << app.help();
    return 0;
  } catch (const CLI::ParseError& error) {
    std::cerr << "error: " << error.what() << " (--help lists the flags)\n";
  } catch (const std::bad_alloc&) {
    std::cerr << "error: out of memory; use a smaller model, batch or file\n";
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << "\n";
  }
  return 1;
}

}  // namespace paragrad::examples
