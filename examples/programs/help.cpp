// Wraps descriptions beside the names of flags, and commands with a backslash at each line's end.
// Chapter 02.
#include "examples/programs/help.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <sstream>

#include "autograd/error.h"

namespace plangrad::examples {
namespace {

constexpr std::size_t description_column = 30;

/// Breaks `words` into lines of at most `width` columns. The first begins in column `at`, which is
/// written already; the others begin in column `indent`. `end`: the end of a line that continues.
std::string wrapped(const std::string& words, std::size_t at, std::size_t indent, std::size_t width,
                    const std::string& end = "") {
  std::string all;
  bool begins = true;  // no word is in this line yet
  std::istringstream in(words);
  for (std::string word; in >> word; begins = false) {
    if (!begins && at + 1 + word.size() + end.size() > width) {
      all += end + "\n" + std::string(indent, ' ');
      at = indent;
    } else if (!begins) {
      all += ' ';
      ++at;
    }
    all += word;
    at += word.size();
  }
  return all + "\n";
}

/// Describes a flag, a positional or a command: its name, and what it is for beside it, or below if
/// there is no room.
std::string entry(const std::string& name, const std::string& what, std::size_t width) {
  const std::size_t column = width < 60 ? 6 : description_column;
  std::string line = "  " + name;
  if (line.size() + 1 >= column)
    line += "\n" + std::string(column, ' ');
  else
    line.resize(column, ' ');
  return line + wrapped(what, column, column, width);
}

std::string entry(const CLI::Option& option, std::size_t width) {
  const bool positional = !option.nonpositional();
  std::string name = positional ? option.get_name(true) : option.get_name(false, true);
  const std::string kind = option.get_expected_max() > 0 ? option.get_type_name() : "";
  if (!kind.empty() && !positional) name += " " + kind;
  std::string what = option.get_description();
  const std::string usual = option.get_default_str();
  if (option.get_required())
    what += " (required)";
  else if (!usual.empty() && kind != "" && what.find("(default: ") == what.npos)
    what += " (default: " + usual + ")";
  return entry(name, what, width);
}

/// A group's name without what its heading adds: "costs" of "Costs (a list has one value)".
std::string short_name(const std::string& group) {
  std::string name = group.substr(0, group.find(" ("));
  for (char& letter : name)
    letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return name;
}

/// The groups of flags, without positionals, and without flags that are in no group.
std::vector<std::string> groups_of(const CLI::App& app) {
  std::vector<std::string> groups;
  for (const CLI::Option* option : app.get_options())
    if (option->nonpositional() && !option->get_group().empty() &&
        std::ranges::count(groups, option->get_group()) == 0)
      groups.push_back(option->get_group());
  return groups;
}

std::string group_text(const CLI::App& app, const std::string& group, std::size_t width) {
  std::string all = "\n" + wrapped(group + ":", 0, 0, width);
  for (const CLI::Option* option : app.get_options())
    if (option->nonpositional() && option->get_group() == group) all += entry(*option, width);
  return all;
}

std::string one_group(const CLI::App& app, const std::string& asked, std::size_t width) {
  std::vector<std::string> names;
  for (const std::string& group : groups_of(app)) {
    names.push_back(short_name(group));
    if (names.back().starts_with(short_name(asked))) return group_text(app, group, width).substr(1);
  }
  throw autograd::Error(autograd::text("--help ", asked, ": the groups of flags are ",
                                       fmt::format("{}", fmt::join(names, ", ")),
                                       autograd::did_you_mean(asked, names)));
}

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

std::string full_name(const CLI::App& app) {
  const CLI::App* parent = app.get_parent();
  return parent ? parent->get_name() + " " + app.get_name() : app.get_name();
}

std::string usage_line(const CLI::App& app) {
  std::string line = "Usage: " + full_name(app) + " [FLAGS]";
  for (const CLI::Option* option : app.get_options())
    if (!option->nonpositional())
      line += option->get_required() ? " " + option->get_name(true)
                                     : " [" + option->get_name(true) + "]";
  return line + (commands_of(app).empty() ? "\n" : " COMMAND\n");
}

/// Wraps the examples: lines that begin with two spaces are commands.
std::string examples_text(const CLI::App& app, std::size_t width) {
  std::string all;
  std::istringstream lines(app.get_footer());
  for (std::string line; std::getline(lines, line);)
    all += line.starts_with("  ") ? "    " + wrapped(line, 4, 8, width, " \\")
                                  : wrapped(line, 0, 0, width);
  return all;
}

}  // namespace

void add_examples(CLI::App& app, const std::vector<Example>& examples) {
  std::string all = examples.size() == 1 ? "Example:" : "Examples:";
  for (const Example& example : examples)
    all += autograd::text("\n", example.what, ":\n  ", example.command);
  app.footer(all);
}

int help_width() {
  constexpr int narrowest = 40, usual = 100;
  winsize window = {};
  const char* columns = std::getenv("COLUMNS");
  int width = columns ? std::atoi(columns) : 0;
  if (width <= 0 && ::isatty(STDOUT_FILENO) && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0)
    width = window.ws_col;
  return width <= 0 ? usual : std::max(narrowest, width);
}

std::string help_text(const CLI::App& app, int columns, const std::string& group) {
  const auto width = static_cast<std::size_t>(columns);
  if (!group.empty()) return one_group(app, group, width);
  std::string all = wrapped(app.get_description(), 0, 0, width) + usage_line(app);
  std::string positionals;
  for (const CLI::Option* option : app.get_options())
    if (!option->nonpositional()) positionals += entry(*option, width);
  if (!positionals.empty()) all += "\n" + positionals;
  std::string listed;
  for (const CLI::App* command : commands_of(app))
    listed += entry(command->get_name(), command->get_description(), width);
  if (!listed.empty()) all += "\nCommands:\n" + listed;
  for (const std::string& each : groups_of(app)) all += group_text(app, each, width);
  const std::string examples = examples_text(app, width);
  return examples.empty() ? all : all + "\n" + examples;
}

}  // namespace plangrad::examples
