// The text of --help: flags by group, wrapped to the width of the terminal, and examples.
// Not here: the flags themselves. Each program describes its own.
// Chapter 02.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace plangrad::examples {

/// A command line, and what it shows.
struct Example {
  const char* what;
  const char* command;
};

/// Adds examples to the end of a program's --help.
void add_examples(CLI::App& app, const std::vector<Example>& examples);

/// The columns that --help may fill: those of the environment's COLUMNS, or of the terminal that
/// standard output is; 100 if there is neither.
int help_width();

/// Describes a program or a command in at most `width` columns, if words allow it. `group`: only
/// the flags of the group whose name begins with these letters; empty: all flags.
/// throws: Error if there is no such group
std::string help_text(const CLI::App& app, int width, const std::string& group);

}  // namespace plangrad::examples
