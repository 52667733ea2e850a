// Copies lie on a device of their own, so that the rank's meter counts what the rank trains with. A
// file has its name once all of it is on disk, so the thread that commits looks for names. At most
// one save is under way. Chapter 15.
#include "parallel/session/saving.h"

#include "autograd/cpu/cpu_backend.h"
#include "parallel/session/session_rank.h"

namespace plangrad::parallel {

using nlohmann::json;
namespace fs = std::filesystem;

nn::WriteFile StateWriter::taker() {
  return [this, host = cpu_device()](const std::string& stem, const ParameterList& parameters,
                                     nn::FlatBuffers buffers) {
    for (auto& [name, buffer] : buffers) {
      const Tensor copy = empty(buffer.shape(), buffer.dtype(), host, Category::workspace);
      buffer.backend().copy_to_host(buffer, copy.raw());
      buffer = copy;
    }
    taken_.push_back({stem, parameters, std::move(buffers)});
  };
}

std::vector<nn::CheckpointFile> StateWriter::start(std::filesystem::path folder,
                                                   nn::SaveMark mark) {
  std::vector<nn::CheckpointFile> files;
  std::vector<StagePart> all = std::exchange(taken_, {});
  for (const StagePart& file : all)
    files.push_back(
        describe_checkpoint_file(folder, file.stem, mark, file.parameters, file.buffers));
  written_ = std::async(std::launch::async, [taken = std::move(all), folder, mark] {
    std::vector<nn::CheckpointFile> written;
    const nn::WriteFile write_file = nn::write_at_once(folder, mark, written);
    for (const StagePart& file : taken) write_file(file.stem, file.parameters, file.buffers);
    return written;
  });
  return files;
}

std::vector<nn::CheckpointFile> StateWriter::finish() {
  return written_.valid() ? wait_for_disk(written_) : std::vector<nn::CheckpointFile>();
}

CommitThread::CommitThread(fs::path folder, fs::path before, nn::SaveMark mark, nlohmann::json run,
                           std::vector<nn::CheckpointFile> files, nn::Retention retention,
                           std::shared_ptr<FolderLock> claim)
    : step_(static_cast<int>(mark.step)) {
  auto work = [=, wait = wait_]() mutable {
    constexpr std::chrono::milliseconds pause(2);
    auto is_here = [&](const nn::CheckpointFile& file) {
      std::error_code ignored;
      return !file.failure.empty() || fs::exists(folder / file.name, ignored);
    };
    auto is_being_written = [&](const nn::CheckpointFile& file) {
      std::error_code ignored;
      return fs::exists(folder / (file.name + nn::partial), ignored);
    };
    int hurry = 30 * 500;  // pauses: 30 seconds while files are being written, one if none is
    while (!std::ranges::all_of(files, is_here) && *wait != over && hurry > 0) {
      std::this_thread::sleep_for(pause);
      if (*wait == hasty) hurry -= std::ranges::any_of(files, is_being_written) ? 1 : 30;
    }
    try {  // weights wait for no file that others have taken away meanwhile
      if (fs::exists(before)) nn::sync_to_disk(before);
    } catch (const Error& error) {  // the save fails, and takes its files away
      files.push_back({.name = "", .failure = error.what()});
    }
    if (claim) claim->check_here();
    commit_checkpoint(folder, mark, run, files, retention);
  };
  committed_ = std::async(std::launch::async, std::move(work));
}

CommitThread::~CommitThread() { *wait_ = hasty; }  // the future waits for the thread

bool CommitThread::is_done() const {
  return committed_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

void CommitThread::finish(const std::string& failure) {
  *wait_ = failure.empty() ? hasty : over;
  try {
    wait_for_disk(committed_);
  } catch (const std::exception& error) {
    throw Error(failure.empty() ? error.what() : failure);
  }
}

// ---- what rank 0 does ----

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

// [snippet save]
/// Begins a save, and finishes the one before; the last one is finished, too.
void Lead::save(bool last) {
  await_save();
  const Counted counted{waited_for_saves_};
  try {
    claim_->check_here();
  } catch (const Error& error) {
    if (last) throw;
    saved_ = std::chrono::steady_clock::now();
    return note_not_saved(steps_, error.what());
  }
  const std::string given_up = make_room(settings_.out / "checkpoint", run_id_);
  if (!given_up.empty()) warn(given_up);
  std::vector<CheckpointFile> files;
  std::vector<WeightsChecksums> weights;
  json run = description_, codecs = json::array();
  std::string on_disk_before;
  for (const Save::Answer& answer : order(Save())) {
    files.insert(files.end(), answer.files.begin(), answer.files.end());
    if (!answer.failure.empty()) files.push_back({.name = "", .failure = answer.failure});
    run.update(json::parse(answer.run));
    codecs.push_back(json::parse(answer.codec));
    weights.push_back(answer.weights);
    on_disk_before += answer.on_disk_before;  // one observer of one rank has such a file
  }
  check_replicas(weights, text("after update ", steps_, ", which is not saved"));
  saved_ = std::chrono::steady_clock::now();
  describe(run, codecs);
  saving_.emplace(settings_.out / "checkpoint", on_disk_before, SaveMark(steps_, run_id_), run,
                  files, Retention{settings_.keep, own_step_, settings_.given_up}, claim_);
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
  const Counted counted{waited_for_saves_};
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
  } catch (const Error& error) {
    if (last) throw;
    saving_.reset();
    return note_not_saved(step, error.what());
  }
  tell({Told::event, step, "checkpoint", "checkpoint saved"});
  try {
    for (const auto& observer : observers_) observer->saved(*this, step);
  } catch (const Error& error) {
    if (last) throw Error(text("step ", step, " is saved, but ", error.what()));
    warn(text("step ", step, " is saved, but ", error.what(), "; the next save tries again"));
  }
}

void Lead::note_not_saved(int step, const std::string& why) {
  tell({Told::event, step, "checkpoint", "checkpoint not saved"});
  warn(text("step ", step, " is NOT SAVED: ", why, ". The run goes on; its next save tries again"));
}

/// Adds what the state of engine and codecs says of itself to the checkpoint's description.
void Lead::describe(json& run, const json& codecs) {
  for (const auto& [stage, store] : engine_.stores())
    if (store.begun() > 0) run["rewound"] = store.begun();  // equal for all stages
  const Plan plan = like()->plan();
  if (!plan.codec.is_none() || !plan.channel.is_none())
    run["codec"] = {{"layout", codec_layout(engine_, plan)}, {"numbers", codecs}};
}

}  // namespace plangrad::parallel
