// What all programs share: flags that check their values, --help with examples, the report of
// errors to the user, and text of others' files made safe for a terminal. Not here: the flags
// themselves. Each program describes its own. Chapter 02.
#pragma once

#include <filesystem>
#include <functional>
#include <iostream>
#include <limits>
#include <string_view>
#include <utility>

#include "autograd/error.h"
#include "parallel/transports/launch.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace plangrad::examples {

using autograd::counted;
using autograd::text;

/// The value of a flag that has no bound on this side.
namespace limits {
constexpr double large = 1e30, tiny = 1e-30;
}

/// The rank of this process among several; 0: it is the first, or alone, or its launcher's
/// variables say nothing that can be read.
int rank_here();

/// An error of the command: it asks for what can't be done, so nothing was begun or written.
struct UsageError : autograd::Error {
  using Error::Error;
};

/// A usage error that every rank of a run finds, so that only rank 0 has to print it.
struct SharedUsageError : UsageError {
  using UsageError::UsageError;
};

/// A value of the training is infinite or NaN, as in a run that goes on from its last update.
struct Diverged : parallel::SharedError {
  using SharedError::SharedError;
};

/// Returns what f() returns. Errors in it become errors of the command line.
///   Wrong: SharedUsageError if every rank finds them
template <class Wrong = UsageError, class F>
auto usage(F&& f) {
  try {
    return f();
  } catch (const Wrong&) {
    throw;
  } catch (const autograd::Error& error) {
    throw Wrong(error.what());
  }
}

/// Returns what f() returns. An Error in it gets `where` in front: the file or flag at fault.
template <class F>
auto located(const std::string& where, F&& f) {
  try {
    return f();
  } catch (const autograd::Error& error) {
    throw autograd::Error(where + error.what());
  }
}

/// A flag that was added, to say more of it.
struct Flag {
  CLI::Option* option;
  Flag required() const;
  /// Checks values by a function that throws an Error if one is none.
  Flag check(const std::function<void(const std::string&)>& read) const;
  /// Checks that the name of a file has one of these endings, which says what is written.
  Flag ends_in(const std::vector<std::string>& endings) const;
  Flag show_default() const;                         ///< in --help: the value that it has now
  Flag show_default(const std::string& text) const;  ///< in --help; empty: none
};

/// A command line, and what it shows.
struct Example {
  const char* what;
  const char* command;
};

/// The flags of a program or of one of its commands. Of a flag given twice, the last one counts.
/// A `what` with "(default: ...)" marks a value that follows from others: no default is printed.
class Flags {
 public:
  Flags(const std::string& what, const std::string& program);
  explicit Flags(CLI::App& app) : Flags({std::shared_ptr<void>(), &app}) {}
  operator CLI::App&() const { return *app_; }  // of CLI11, which takes seconds to include
  /// Adds a command, of which a command line has at most one.
  Flags command(const char* name, const char* what, const std::vector<Example>& examples);
  /// Sets the heading in --help for the flags that follow.
  void group(const std::string& name);

  /// Adds a flag for a whole number in [lowest, highest].
  template <class T>
  Flag whole(const char* name, T& value, std::type_identity_t<T> lowest, const char* what,
             std::type_identity_t<T> highest = std::numeric_limits<T>::max()) {
    return number(name, value, lowest, highest, what, "N");
  }
  /// Adds a flag for a finite number in [lowest, highest].
  template <class T>
  Flag number(const char* name, T& value, std::type_identity_t<T> lowest,
              std::type_identity_t<T> highest, const char* what, const char* kind = "X");
  /// Adds a flag for a file, a folder or other text; `kind` is its name in --help.
  template <class T>
  Flag words(const char* name, T& value, const char* kind, const std::string& what);
  /// Adds a flag whose value is one of `names`.
  void choice(const char* name, std::string& value, const std::vector<std::string>& names,
              const char* what);
  /// Adds a flag without a value.
  void yes(const char* name, bool& value, const std::string& what);
  /// Adds a flag that gives its value to a function.
  Flag taken(const std::string& name, const char* kind, const std::string& what,
             const std::function<void(const std::string&)>& take);

  void needs(const char* a, const char* b);     ///< rejects a without b
  void excludes(const char* a, const char* b);  ///< rejects a beside b
  void remove(const char* name);

  /// Returns the words from the first that is no flag on. Without `front` there may be none.
  std::vector<std::string> parse(int argc, char** argv, bool front = false) const;
  bool given(const char* name) const;
  Flags typed() const;  ///< those of the command that was typed, or of the program if it has none
  std::string name() const;  ///< of the program or command

 private:
  explicit Flags(std::shared_ptr<CLI::App> app);
  std::shared_ptr<CLI::App> app_;
};

/// Exit statuses. `misused`: before its work began, the program has found that the command can't be
/// done as it was given: its flags, the files and folders that it names, or variables of a launcher
/// do not allow it; usage() makes such errors. `failed`: it fails later, or can't write its result.
/// `diverged`: the loss of a run is not finite, as that of another start would be.
constexpr int failed = 1, misused = 2, diverged = 3;

/// The exit status of a program that ends by this error.
int status_of(const std::exception& error);

/// Runs body(), which parses and works, and returns its exit status. An error becomes one line on
/// stderr, and its status is status_of(), or 2 if a flag does not exist or has no such value.
/// --help and --version are no errors.
///   has_ranks: whether its processes can be ranks, which share an error of the command line
int run_program(CLI::App& app, const std::function<int()>& body, bool has_ranks = false);

/// A line on stderr that is written over and over, if stderr is a terminal, and goes at the end.
class ProgressLine {
 public:
  void show(const std::string& line);
  ~ProgressLine();

 private:
  int shown_ = 0;  // times
};

/// Adds examples to the end of a program's --help.
void add_examples(CLI::App& app, const std::vector<Example>& examples);

/// Breaks text into lines that fit the terminal, and 100 columns; the first begins in `indent`.
std::string in_lines(const std::string& text, std::size_t indent = 0);

/// Shows control characters as \x1b, those that change the direction of text as \u202e, and bytes
/// that are not UTF-8 as U+FFFD. Line breaks and tabs stay.
std::string printable(std::string_view text);

/// Does the same for a line with names of others' files or tensors: shows line breaks, too, and
/// leaves out the middle of a line that no reader would read.
std::string printable_line(std::string_view text);

/// Prints such a line to stderr or stdout, in one write: all that programs say goes through here.
void tell(std::string_view line, std::ostream& out = std::cerr);

/// Prints what went wrong to stderr, behind `begin`. Lines after the first, which plans with a
/// marked cell and several ranks have, are indented: a name with a line break forges none.
void tell_lines(const std::string& begin, const std::string& what);

/// Does the same for text that comes in pieces, which may end within a character.
class PrintablePieces {
 public:
  /// Returns the text that is complete with this piece.
  std::string take(std::string_view piece);
  /// Returns the incomplete character, if the last piece ended within one.
  std::string rest() { return printable(std::exchange(held_, {})); }

 private:
  std::string held_;  // the beginning of a character
};

/// A typo in the name of a result makes no folders, save that runs/ is made by the first run.
/// throws: UsageError if the folder is missing that is to hold `made`, a file or a folder
void check_parent(const std::filesystem::path& made);

/// Writes a page, figure, trace or text to a file that the user named, and prints the line. A file
/// there is replaced if it is empty or begins as such results do; a pipe or device gets the bytes,
/// and standard output nothing else, by whatever name.
/// throws: UsageError if another file is there, or no folder for it; nn::Unwritable
void write_result(const std::filesystem::path& file, const std::string& bytes,
                  const std::string& line = "");

}  // namespace plangrad::examples
