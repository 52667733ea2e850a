// Starts another program, which ends when this one does.
// Not here: what is started, and how it ends (launcher.h).
// Chapter 15.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace plangrad::examples {

/// Starts a program, found like a shell's, in a process group of its own, so that Ctrl-C does not
/// reach it. On Linux, it gets SIGTERM when this process ends, in whatever way.
/// throws: UsageError if there is no such program; Error if the system has no process left
pid_t start_process(std::vector<std::string> words);

}  // namespace plangrad::examples
