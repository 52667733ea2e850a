// The one list in which observers register. Chapter 05.
#include "examples/programs/run_observers.h"

#include "examples/elastic/elastic_news.h"
#include "examples/elastic/silent_errors.h"
#include "examples/pages/run_page.h"
#include "examples/profile/profile.h"
#include "examples/programs/on_saved.h"
#include "examples/programs/program.h"
#include "parallel/observers/bit_choice.h"
#include "parallel/observers/pretended_count.h"
#include "parallel/observers/run_log.h"
#include "parallel/observers/validation.h"
#include "sparse/prune_run.h"

namespace plangrad::examples {

Observers run_observers(const RunFlags& flags, const ObservedRun& run) {
  Observers all;
  auto log = std::make_unique<RunLog>(
      LogSettings{flags.quiet, run.about, run.unit, run.units_per_step, flags.attempt.is_segment,
                  printable_line, run.config.value("flags", nlohmann::json())});
  auto record = std::make_unique<RunPage>(
      *log, RecordSettings{run.config, run.flops_per_unit, 30, run.pretended}, run.title);
  all.push_back(std::make_unique<FolderCheck>());  // before the log begins its files
  all.push_back(std::move(log));
  all.push_back(std::make_unique<OnSaved>(run.saved));  // may throw, so behind the log
  all.push_back(std::make_unique<ElasticNews>(flags.attempt.news, flags.note, flags.elastic));
  all.push_back(std::make_unique<BitChoice>(run.codec));
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
