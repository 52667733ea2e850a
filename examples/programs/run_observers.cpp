// The one list in which observers register.
// Chapter 05.
#include "examples/programs/run_observers.h"

#include "examples/elastic/silent_errors.h"
#include "examples/pages/run_page.h"
#include "examples/profile/profile.h"
#include "examples/programs/program.h"
#include "examples/programs/run_folder.h"
#include "parallel/observers/bit_choice.h"
#include "parallel/observers/pretended_count.h"
#include "parallel/observers/run_log.h"
#include "parallel/observers/validation.h"
#include "sparse/prune_run.h"

namespace plangrad::examples {

namespace {

/// Calls functions of the program after each save. Looks at the folder once more before the first,
/// as another run may have ended there before this one locked it.
class OnSaved : public RunObserver {
 public:
  explicit OnSaved(const ObservedRun& run) : run_(run) {}
  const char* name() const override { return "saved"; }
  void ready(Lead& lead) override { check_out(lead.settings()); }
  void saved(Lead& lead, int) override {
    for (const auto& call : run_.saved) call(lead.settings());
  }

 private:
  const ObservedRun& run_;
};

/// Tells of the ranks that an elastic run has lost, and ends a plan after each update, so that rank
/// 0 has heard of all of them if a rank is lost.
class ElasticNews : public RunObserver {
 public:
  ElasticNews(Words news, bool may_lose_ranks)
      : news_(std::move(news)), may_lose_ranks_(may_lose_ranks) {}
  const char* name() const override { return "elastic"; }
  void ready(Lead& lead) override {
    for (const std::string& line : news_) {
      lead.say("elastic: " + line);
      lead.note("elastic", line);
    }
  }
  Border next_border(int done) const override {
    return may_lose_ranks_ ? Border{done + 1, nullptr} : Border();
  }

 private:
  const Words news_;
  const bool may_lose_ranks_;
};

Words news_of(const RunFlags& flags) {
  Words news = flags.attempt.news;
  if (!flags.note.empty()) news.push_back(flags.note);
  return news;
}

}  // namespace

Observers run_observers(const RunFlags& flags, const ObservedRun& run) {
  Observers all;
  auto log =
      std::make_unique<RunLog>(LogSettings{flags.quiet, run.about, run.unit, run.units_per_step,
                                           flags.attempt.is_segment, printable_line});
  auto record = std::make_unique<RunPage>(
      *log, RecordSettings{run.config, run.flops_per_unit, 30, run.pretended}, run.title);
  all.push_back(std::move(log));
  all.push_back(std::make_unique<OnSaved>(run));
  all.push_back(std::make_unique<ElasticNews>(news_of(flags), flags.elastic));
  all.push_back(std::make_unique<BitChoice>(run.bits_every));
  if (flags.prune.given())
    all.push_back(
        std::make_unique<sparse::PruneRun>(flags.prune.settings(flags.steps, flags.seed)));
  all.push_back(std::make_unique<SilentErrors>(flags.check_every));
  all.push_back(std::make_unique<Validation>(flags.evaluate_every));
  if (flags.profile) all.push_back(std::make_unique<Profile>());
  if (run.pretended) all.push_back(std::make_unique<PretendedCount>(run.pretended));
  all.push_back(std::make_unique<Rescuer>(run.rescue));
  all.push_back(std::move(record));  // the last one: it tells what the others have changed
  return all;
}

}  // namespace plangrad::examples
