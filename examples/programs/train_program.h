// The main function of a program that trains: parses flags, and runs one session, or several if
// ranks are lost. Not here: a session (run_session.h), and what follows a loss (elastic.h).
// Chapter 15.
#pragma once

#include "examples/elastic/elastic.h"
#include "examples/programs/program.h"
#include "examples/programs/run_session.h"

namespace plangrad::examples {

/// Runs a program whose flags have been added to `flags`, and returns its exit status. A session
/// after a loss has flags of its own, so it is described to CLI11 anew.
///   Run: RunFlags with the flags of the program
template <class Run>
int train_program(Flags& flags, Run& run, int argc, char** argv,
                  ReadyRun (*prepare)(const Run& run, int started), const Finish& finish = {}) {
  auto train = [&](Flags& described, Run& session, const Words& words) {
    // The next session locks the folder anew.
    const std::shared_ptr<void> unlocks(nullptr, [&](void*) { session.lock = nullptr; });
    try {
      usage<SharedUsageError>([&] { session.parse(described, words); });
      return train_run(
          session, [&](int started) { return prepare(session, started); }, finish);
    } catch (const UsageError& error) {
      throw SharedUsageError(session.with_origin(error.what()));
    }
  };
  auto next = [&](const Words& words, const Attempt& attempt) {
    if (attempt.number == 0) return train(flags, run, words);
    Flags again("", "");
    Run session;
    session.add_flags(again);
    session.attempt = attempt;
    return train(again, session, words);
  };
  const auto body = [&] { return run_elastic(Words(argv + 1, argv + argc), next); };
  return run_program(flags, body, /*has_ranks*/ true);
}

}  // namespace plangrad::examples
