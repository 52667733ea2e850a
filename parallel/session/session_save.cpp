// Rank 0's part of saves: ranks copy their state and write it while they train on; rank 0 then
// commits the checkpoint, in a thread, too. At most one save is under way.
// Chapter 15.
#include "parallel/session/session_lead.h"
#include "parallel/session/state_files.h"

namespace plangrad::parallel {

using nlohmann::json;

namespace {

/// Adds the seconds that this object lives.
struct Counted {
  double& seconds;
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  ~Counted() {
    seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
};

}  // namespace

bool Lead::is_save_due() const {
  const std::chrono::duration<double> old = std::chrono::steady_clock::now() - saved_;
  return settings_.save_minutes > 0 && old.count() >= 60 * settings_.save_minutes;
}

/// Notes what the run's folder is called now. Returns whether it is there.
bool Lead::follow_folder() {
  const std::filesystem::path now = claim_->place();
  std::error_code gone;
  if (now.empty() || std::filesystem::equivalent(now, settings_.out, gone)) return !now.empty();
  log_.warn(text("the run's folder ", settings_.out.string(), " is now called ", now.string()));
  settings_.out = now;
  log_.move_to(now);
  return true;
}

// [snippet save]
/// Begins a save, and finishes the one before; the last one is finished, too.
void Lead::save(bool last) {
  await_save();
  const Counted counted{report_.saving};
  if (!follow_folder()) {
    const std::string why = text("the folder ", settings_.out.string(), " was removed");
    if (last) throw Error(why);
    saved_ = std::chrono::steady_clock::now();
    return note_not_saved(steps_, why);
  }
  const std::string given_up = make_room(settings_.out / "checkpoint", run_id_);
  if (!given_up.empty()) log_.warn(given_up);
  std::vector<CheckpointFile> files;
  std::vector<WeightsChecksums> weights;
  json codecs = json::array();
  for (const Save::Answer& answer : order(Save{settings_.out.string()})) {
    files.insert(files.end(), answer.files.begin(), answer.files.end());
    codecs.push_back(json::parse(answer.codec));
    weights.push_back(answer.weights);
  }
  check_replicas(weights, text("after update ", steps_, ", which is not saved"));
  saved_ = std::chrono::steady_clock::now();
  json run = run_now(codecs);
  try {
    run["metrics"] = log_.written();
  } catch (const Error& error) {  // the save fails, and takes its files away
    files.push_back({.name = "", .failure = error.what()});
  }
  saving_.emplace(settings_.out / "checkpoint", log_.path(), SaveMark(steps_, run_id_), run, files,
                  Kept{settings_.keep, own_step_});
  if (last) await_save(last);
}

/// Notes that the save which was under way has ended, if it has.
void Lead::go_on_saving() {
  if (saving_ && saving_->is_done()) conclude_save(false);
}
// [end snippet]

/// Waits for the save that is under way, and asks all ranks why a file is missing.
void Lead::await_save(bool last) {
  if (!saving_) return;
  const Counted counted{report_.saving};
  std::string failure;
  for (const std::vector<CheckpointFile>& own : order(FinishFiles()))
    for (const CheckpointFile& file : own)
      if (failure.empty()) failure = file.failure;
  conclude_save(last, failure);
}

/// A save that fails in the midst of a run, as when the disk is full, leaves the earlier
/// checkpoint, and the run goes on to the next save.
void Lead::conclude_save(bool last, const std::string& failure) {
  const int step = saving_->step();
  try {
    std::optional<AtWork> waiting;  // not in the midst of a plan, where a save is done
    if (!saving_->is_done()) waiting.emplace(engine_.transport(), Work::saving);
    saving_->finish(failure);
    waiting.reset();
    saving_.reset();
    own_step_ = step;
    report_.events.push_back({step, "checkpoint", "checkpoint saved"});
  } catch (const Error& error) {
    if (last) throw;
    saving_.reset();
    return note_not_saved(step, error.what());
  }
  try {
    log_.replace_earlier();
  } catch (const Error& error) {
    if (last) throw Error(text("step ", step, " is saved, but ", error.what()));
    log_.warn(text("step ", step, " is saved, but ", error.what(), "; the next save tries again"));
  }
}

void Lead::note_not_saved(int step, const std::string& why) {
  report_.events.push_back({step, "checkpoint", "checkpoint not saved"});
  log_.warn(
      text("step ", step, " is NOT SAVED: ", why, ". The run goes on; its next save tries again"));
}

/// The description of the run for a checkpoint of now.
json Lead::run_now(const json& codecs) {
  json run = settings_.run;
  if (!bits_.empty()) run["bits"] = bits_;
  for (const auto& [stage, store] : engine_.stores())
    if (store.begun() > 0) run["rewound"] = store.begun();  // equal for all stages
  const Plan plan = like()->plan();
  if (!plan.codec.is_none() || !plan.channel.is_none())
    run["codec"] = {{"layout", codec_layout(engine_, plan)}, {"numbers", codecs}};
  return run;
}

}  // namespace plangrad::parallel
