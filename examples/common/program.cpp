// Checks the values of flags, and turns exceptions into one line and an exit status.
// Not here: the meaning of flags.
// Chapter 02.
#include "examples/common/program.h"

#include <charconv>
#include <cmath>
#include <iostream>

namespace paragrad::examples {

template <class T>
std::string problem_of_number(const std::string& value, T lowest, T highest) {
  T number = 0;
  const char* end = value.data() + value.size();
  auto [stop, problem] = std::from_chars(value.data(), end, number);
  if (problem == std::errc() && stop == end && number >= lowest && number <= highest) return "";
  const char* kind = std::is_integral_v<T> ? "a whole number" : "a number";
  return text("expected ", kind, " from ", lowest, " to ", highest, ", got ", value);
}

template std::string problem_of_number(const std::string&, int, int);
template std::string problem_of_number(const std::string&, std::int64_t, std::int64_t);
template std::string problem_of_number(const std::string&, double, double);

Flags::Flags(CLI::App& app) : app_(app) {
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
}

void Flags::choice(const char* name, std::string& value, const std::vector<std::string>& names,
                   const char* what) {
  words(name, value, "NAME", what)->check(CLI::IsMember(names))->capture_default_str();
}

void Flags::yes(const char* name, bool& value, const char* what) {
  app_.add_flag(name, value, what);
}

int run_program(const CLI::App& app, const std::function<int()>& body) {
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
