// Texts that chapters show, held against what programs and tests of this build say.
// Not here: drawings, and what the program `plan` says (tutorials/figures.sh).
#pragma once

#include <string>

namespace plangrad::tests {

/// Fails unless tutorials/figures/NAME.md is `said`, which is then written to the build folder.
void check_figure(const std::string& name, const std::string& said);

/// Fails unless tutorials/figures/NAME.md is this printed text, as a block of code.
inline void check_printed(const std::string& name, const std::string& said) {
  check_figure(name, "```\n" + said + "```\n");
}

}  // namespace plangrad::tests
