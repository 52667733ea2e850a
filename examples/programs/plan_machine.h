// Machines that users name, and the one that a program runs on, as texts that parse_machine()
// reads. Not here: what a text means (parallel/simulation/machine.h). Chapter 06.
#pragma once

#include <functional>
#include <string>

namespace plangrad::examples {

/// Names the machines that --machine takes, and says which files it takes.
std::string machine_words();

/// The text of examples/machines/NAME.txt, which every program contains, or of a file.
/// throws: Error that lists the names, if there is neither; with file and line, if it is no machine
std::string machine_text(const std::string& name_or_file);

/// The first words of the text of a measured machine.
inline constexpr const char* measured_start = "# Measured by plan machine --measure";

/// Measures this machine for about ten seconds: matrix products by size and dtype, from which peak
/// and tile follow; memory bandwidth, by sums of large vectors; and latency and bandwidth between
/// rank 0 and another one on its host, and one elsewhere. Ranks are threads, or processes that MPI
/// started; all of these call it together, and rank 0 measures. A device is a core, or a process.
/// write: takes the machine's text, with what was measured as comments; rank 0 calls it
void measure_machine(const std::string& name, bool processes,
                     const std::function<void(const std::string&)>& write);

}  // namespace plangrad::examples
