// OnSaved: what a program does after each save, such as pointing to the newest run.
// Not here: saves (parallel/session/saving.cpp). Chapter 05.
#pragma once

#include "examples/programs/run_folder.h"
#include "parallel/session/session_rank.h"

namespace plangrad::examples {

using namespace plangrad::parallel;

/// Calls functions of the program after each save. Looks at the folder once more before the run
/// writes there, as another one may have ended there before this one locked it.
class OnSaved : public RunObserver {
 public:
  using Calls = std::vector<std::function<void(const SessionScope& scope)>>;
  explicit OnSaved(Calls calls) : calls_(std::move(calls)) {}
  const char* name() const override { return "saved"; }
  void ready(Lead& lead) override {
    const SessionScope& scope = lead.settings();
    check_out(scope);
    if (!scope.resumed || scope.resume != scope.out) return;
    const std::string kept = keep_edited_metrics(scope.out, scope.resumed_run());
    if (!kept.empty()) lead.warn(kept);
  }
  void saved(Lead& lead, int) override {
    for (const auto& call : calls_) call(lead.settings());
  }

 private:
  const Calls calls_;
};

}  // namespace plangrad::examples
