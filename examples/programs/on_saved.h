// What a program does with a run's folder before anything is written there, and after each save,
// such as pointing to the newest run. Not here: saves (parallel/session/saving.cpp). Chapter 05.
#pragma once

#include "examples/programs/run_folder.h"
#include "parallel/session/session_rank.h"

namespace plangrad::examples {

using namespace plangrad::parallel;

/// Checks the run's folder once more before anything is written there, as another run may have
/// ended there before this one locked it. Copies edited files aside.
class FolderCheck : public RunObserver {
 public:
  const char* name() const override { return "folder"; }
  void ready(Lead& lead) override {
    check_out(lead.settings());
    const std::string kept = keep_edited_files(lead.settings());
    if (!kept.empty()) lead.warn(kept);
  }
};

/// Calls functions of the program after each save. If one throws, observers behind this
/// one hear nothing of the save.
class OnSaved : public RunObserver {
 public:
  using Calls = std::vector<std::function<void(const SessionScope& scope)>>;
  explicit OnSaved(Calls calls) : calls_(std::move(calls)) {}
  const char* name() const override { return "saved"; }
  void saved(Lead& lead, int) override {
    for (const auto& call : calls_) call(lead.settings());
  }

 private:
  const Calls calls_;
};

}  // namespace plangrad::examples
