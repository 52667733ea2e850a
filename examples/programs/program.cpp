// Checks the values of flags, and turns exceptions into one line and an exit status.
// Not here: the meaning of flags.
// Chapter 02.
#include "examples/programs/program.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iostream>
#include <thread>

#include "autograd/error.h"
#include "autograd/version.h"
#include "examples/programs/help.h"
#include "examples/programs/printable.h"
#include "parallel/transports/rank_environment.h"

namespace plangrad::examples {

Flags::Flags(CLI::App& app) : app_(app) {
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
}

void Flags::choice(const char* name, std::string& value, const std::vector<std::string>& names,
                   const char* what) {
  words(name, value, "NAME", fmt::format("{}; one of {}", what, fmt::join(names, ", ")))
      ->check(checked_by([names](const auto& got) { parallel::check_choice(got, names); }))
      ->capture_default_str();
}

void Flags::yes(const char* name, bool& value, const std::string& what) {
  app_.add_flag(name, value, what);
}

namespace {

/// The command that was typed, or the program itself if it has none.
const CLI::App& command_of(const CLI::App& app) {
  const std::vector<CLI::App*> typed = app.get_subcommands();
  return typed.empty() ? app : *typed.front();
}

/// Names of flags, as users type them, and of commands.
std::vector<std::string> known_words(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  for (const CLI::App* each : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(each->get_name());
  return names;
}

/// Describes a word that the program does not know: the first flag, as later words may be values.
std::string unknown_word(const CLI::App& app) {
  const std::vector<std::string> words = app.remaining(true);
  auto found = std::ranges::find_if(words, [](const auto& word) { return word.starts_with('-'); });
  const std::vector<std::string> known = known_words(command_of(app));
  if (found == words.end()) {
    const std::string word = words.empty() ? "" : words.front();
    const bool commands =
        command_of(app).get_parent() == nullptr && !known.empty() && !known.back().starts_with('-');
    return text(commands ? "there is no command " : "nothing takes the word ", word,
                autograd::did_you_mean(word, known));
  }
  const std::string flag = found->substr(0, found->find('='));
  return text("there is no flag ", flag, autograd::did_you_mean(flag, known));
}

/// Prints --help. A group's name can be a word of its own, or be taken for a positional.
void print_help(const CLI::App& app) {
  const CLI::App& command = command_of(app);
  std::vector<std::string> words = app.remaining(true);
  for (const CLI::Option* option : command.get_options())
    if (!option->nonpositional() && option->count() > 0) words.push_back(option->results().front());
  std::cout << help_text(command, help_width(), words.empty() ? "" : words.front());
}

/// Prints one line, in one write, without characters that a terminal obeys: messages quote names of
/// others' files. Ranks that are processes share the terminal. What all ranks find is printed by
/// the first alone; the others wait until it has been.
void print_error(const std::string& what, bool shared) {
  const auto started = parallel::rank_environment();
  if (shared && started && started->rank > 0)
    std::this_thread::sleep_for(std::chrono::seconds(1));
  else
    std::cerr << "error: " + printable(what) + "\n";
}

/// Opens /dev/null for each of standard input, output and error that the caller has closed: else
/// the program prints to the next file that is opened.
void open_standard_streams() {
  int last = 0;
  do last = ::open("/dev/null", O_RDWR);
  while (last >= 0 && last <= STDERR_FILENO);
  ::close(last);
}

/// Whether standard output is a pipe that nobody reads, as after `| head`.
bool reader_is_gone() {
  pollfd output{STDOUT_FILENO, POLLOUT, 0};
  return ::poll(&output, 1, 0) == 1 && (output.revents & POLLERR) != 0;
}

/// Runs the body, and returns its status, or 0 after --help and --version.
int run_or_help(CLI::App& app, const std::function<int()>& body) {
  int status = 0;
  try {
    status = body();
  } catch (const CLI::CallForHelp&) {
    usage([&] {
      print_help(app);
      return 0;
    });
  } catch (const CLI::CallForVersion&) {
    std::cout << app.get_name() << " of plangrad " << autograd::version() << '\n';
  }
  if (!std::cout.flush() && !reader_is_gone())
    throw autograd::Error("can't write to standard output; is the disk full?");
  return status;
}

}  // namespace

int run_program(CLI::App& app, const std::function<int()>& body) {
  constexpr int failed = 1, misused = 2;
  open_standard_streams();
  app.get_help_ptr()->description("print this help; -h GROUP: flags of one group");
  app.set_version_flag("--version", autograd::version(), "print the version")->group("Options");
  const char* more = " (--help lists the flags)";
  try {
    return run_or_help(app, body);
  } catch (const CLI::ExtrasError&) {
    print_error(unknown_word(app) + more, true);
    return misused;
  } catch (const CLI::ParseError& error) {
    print_error(error.what() + std::string(more), true);
    return misused;
  } catch (const UsageError& error) {
    print_error(error.what(), dynamic_cast<const SharedUsageError*>(&error) != nullptr);
    return misused;
  } catch (const std::bad_alloc&) {
    print_error("out of memory; use a smaller model, batch or file", false);
  } catch (const std::exception& error) {
    print_error(error.what(), false);
  }
  return failed;
}

}  // namespace plangrad::examples
