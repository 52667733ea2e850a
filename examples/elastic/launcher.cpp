// A signal reaches this program alone, which asks mpirun's processes to save. A new process tells
// by a pipe why it could not become the program; the pipe closes if it could. Chapter 15.
#include "examples/elastic/launcher.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include <cerrno>

#include "examples/elastic/rescue.h"
#include "examples/programs/plan_flags.h"
#include "examples/programs/program.h"
#include "examples/programs/run_folder.h"
#include "examples/programs/stop_signals.h"
#include "nn/checkpoint/checkpoint.h"
#include "nn/checkpoint/file.h"
#include "parallel/observers/metric_files.h"
#include "parallel/session/observer.h"

namespace plangrad::examples {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

/// From this status on, a signal ended a program, so a rank is gone.
constexpr int by_signal = 128;
std::atomic<int> interruptions = 0, signal_number = 0;

void note_signal(int number) {
  if (number == SIGXCPU) ::signal(number, SIG_IGN);  // the system sends it each second
  signal_number = number;
  ++interruptions;
}

/// The number of ranks that a layout's plan has; 0: its schedule can't have such a layout.
int ranks_of(const parallel::PlanSpec& request) try {
  const ScheduleFlags flags{request};
  return flags.behaviour().ranks(with_defaults(flags.behaviour(), flags.found()));
} catch (const std::exception&) {
  return 0;
}

/// The value of a key in the run's newest checkpoint. It is empty if there is no such checkpoint,
/// or if ranks would refuse it.
json said_in(const fs::path& run, const char* key) try {
  json said = nn::find_intact(run / "checkpoint").checkpoint->run().at(key);
  if (said.is_object()) said.value("--steps", 0);  // throws if that is no number
  return said;
} catch (const std::exception&) {
  return json::object();
}

}  // namespace

void note_signals() {
  for (int number : stop_signals) ::signal(number, note_signal);
  if (::signal(SIGHUP, note_signal) == SIG_IGN) ::signal(SIGHUP, SIG_IGN);  // under nohup
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGCHLD, SIG_DFL);  // else the system may forget how mpirun ended
}

Launcher::Launcher(LaunchOptions options, Words words)
    : options_(std::move(options)), words_(std::move(words)) {
  for (const char* flag : {"--out", "--transport"}) remove_flag(words_, flag);
  if (!options_.resume.empty()) first_ = options_.at < 0 ? saved_in(options_.resume) : options_.at;
}

/// The command of mpirun: from the newest state in memory, if there is one.
Words Launcher::command(int ranks, const parallel::PlanSpec* layout) const {
  Words all, own = words_;
  std::istringstream words(options_.mpirun);
  for (std::string word; words >> word;) all.push_back(word);
  all.insert(all.end(), {"-n", std::to_string(ranks)});
  const std::string folder = memory_.path().string();
  if (losses_ > 0) remove_flag(own, "--lose");
  if (saved_ > 0) continue_run(own, folder);
  if (layout) set_layout(own, *layout);
  all.insert(all.end(), own.begin(), own.end());
  all.insert(all.end(), {ranks > 1 ? "--transport=mpi" : "--transport=threads",
                         text("--save-every=", options_.every), "--out=" + folder});
  if (losses_ > 0)
    all.push_back(text("--note=", news_, "; ", counted(ranks, "rank"), " from update ", saved_ + 1,
                       layout ? with_layout(*layout, saved_spec(flags_)) : ""));
  return all;
}

/// Runs mpirun to its end, and returns its status as a shell has it. To ranks that have not begun,
/// which their lock of the folder shows, mpirun can't pass on that they are to save.
int Launcher::attempt_with(int ranks, const parallel::PlanSpec* layout) {
  if (losses_ > 0) tell(text("elastic: starts ", counted(ranks, "rank"), " after update ", saved_));
  const fs::path lock = memory_.path() / "plangrad.lock";
  std::error_code ignored;
  fs::remove(lock, ignored);  // of ranks that were killed
  const pid_t process = start_process(command(ranks, layout));
  int status = 0, told = 0;
  bool has_begun = false;
  for (;;) {
    const pid_t ended = ::waitpid(process, &status, WNOHANG);
    PG_CHECK(ended >= 0 || errno == EINTR, "can't wait for mpirun: ", nn::system_message());
    if (ended == process) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    copy_.refresh();
    has_begun = has_begun || fs::exists(lock, ignored);
    if (told == interruptions) continue;
    ::kill(process, has_begun && told == 0 ? SIGUSR1 : SIGTERM);  // SIGUSR1: save and stop
    told = interruptions;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// Runs the layout that the user asks for; with fewer ranks, the first that its schedule can have.
int Launcher::attempt() {
  if (!options_.fewer || saved_ == 0) return attempt_with(options_.ranks, nullptr);
  int status = misused;
  for (const parallel::PlanSpec& layout : layouts_for(options_.ranks, flags_)) {
    const int ranks = ranks_of(layout);
    if (status != misused || ranks == 0 || ranks > options_.ranks) continue;
    status = attempt_with(ranks, &layout);
  }
  return status;
}

/// The updates of the whole run; 0: its first checkpoint will tell.
int Launcher::steps() const {
  if (const int own = said_in(memory_.path(), "flags").value("--steps", 0)) return own;
  if (const int given = std::atoi(value_of(words_, "--steps").c_str())) return given;
  return options_.resume.empty() ? 0 : said_in(options_.resume, "flags").value("--steps", 0);
}

/// The newest update that another start goes on from, and the last one that has a line.
int Launcher::saved() const { return std::max(first_, saved_in(memory_.path())); }
int Launcher::done() const { return std::max(first_, done_in(memory_.path())); }

/// Whether saves into memory succeed. A save ends before the next one begins: when updates after
/// the second border have lines, and no save is there, the first one has failed. The last save has
/// failed if the run ends after its last update, and by no signal. The next one fails without room.
bool Launcher::can_save(int status) const {
  const std::int64_t second_border = (saved() / options_.every + std::int64_t{2}) * options_.every;
  return has_room(memory_.path()) && done() <= second_border &&
         (status >= by_signal || steps() == 0 || done() < steps());
}

/// Counts what was lost. Ranks may have made updates that have no line yet, as lines come with the
/// end of a plan; no plan goes beyond the next save.
void Launcher::note_loss(int status) {
  const int newest = saved_in(memory_.path());
  const int border = parallel::next_multiple(options_.every, done());
  const int again = (steps() > 0 ? std::min(border, steps()) : border) - saved();
  if (newest > saved_) news_.clear();  // the metrics have it
  vain_ = newest > saved_ ? 0 : vain_ + 1;
  saved_ = newest;
  ++losses_;
  repeated_ += again;
  if (flags_.is_null() && newest > 0) flags_ = said_in(memory_.path(), "flags");
  if (options_.fewer && newest > 0) options_.ranks = std::max(1, options_.ranks - 1);
  const std::string line = text("a rank is lost after update ", done(), " (status ", status,
                                "); at most ", counted(again, "update"), " to do again");
  news_ += news_.empty() ? line : "; " + line;
  tell("elastic: " + line);
}

/// Copies the last state to disk, says where the run is, and returns the status of this program.
int Launcher::end(int status) {
  const std::string memory = memory_.path().string(), out = options_.out.string();
  const std::string counts = text("elastic: ", counted(losses_, "loss"), "; at most ", repeated_,
                                  " of ", done(), " updates were done again");
  keep_aside();
  if (saved_in(memory_.path()) > 0 && !copy_.copy() && !copy_.copy()) {
    tell(counts);
    tell(
        text("elastic: the state in memory can't be copied whole to ", out, ": ", copy_.problem()));
    tell(text("elastic: the run stays in memory, in ", memory, "; continue it with --resume ",
              memory, " and another --out"));
    return failed;
  }
  memory_.on_disk();
  if (options_.is_new && copy_.holds_run()) point_latest_to(options_.out);
  tell(counts + (copy_.holds_run() ? "; the run is in " + out : "; none is saved"));
  if (copy_.holds_run())
    tell(text("elastic: read ", out, " where lines above name ", memory, ": report ", out,
              "/report.html, --resume ", out));
  const int newest = saved_in(options_.out);  // lines of ranks know of no update that is only there
  const std::string before = flags_before(newest, options_.out, options_.resume, first_);
  if (status == diverged && !before.empty())
    tell(text("elastic: to go back before update ", newest, ": ", before));
  return status;
}

/// Copies what a run that diverged has saved aside in memory.
void Launcher::keep_aside() const {
  const fs::path aside = memory_.path() / "diverged";
  std::error_code problem;
  if (saved_in(aside) == 0) return;
  const auto saved = nn::find_intact(aside / "checkpoint").checkpoint;
  const fs::path kept = folder_aside(options_.out, saved->manifest());
  const fs::path unfinished = kept.string() + nn::partial;
  const bool is_here = options_.lock->is_here();
  if (is_here && !fs::exists(kept, problem)) {  // else it has this very update
    fs::remove_all(unfinished, problem);        // of a copy that was interrupted
    fs::copy(aside, unfinished, fs::copy_options::recursive, problem);
    if (!problem) fs::rename(unfinished, kept, problem);
  }
  tell(text("elastic: what is saved aside ", is_here && !problem ? "is in " : "can't be copied to ",
            kept.string()));
}

/// The status of this program if another start is no use, and says why: all is done, or the run
/// can't save. A rank that is lost when all is done costs nothing.
std::optional<int> Launcher::last_status(int status) const {
  if (status == misused) return misused;
  // A rank that was lost in the same update may have given mpirun its status.
  if (status == diverged || saved_in(memory_.path() / "diverged") > 0) {
    tell("elastic: the run diverged, as another start would: see the lines above");
    return diverged;
  }
  if (steps() > 0 && saved() >= steps()) {
    tell(text("elastic: the run ended with status ", status, " when all its ", steps(),
              " updates were saved; what follows them (validation, report, huggingface/) ",
              "may be missing"));
    return status >= by_signal ? 0 : status;
  }
  if (can_save(status)) return {};
  tell(text("elastic: the run has made update ", done(), " and ",
            saved() > first_ ? text("saved none after ", saved()) : "saved none",
            ", so another start would lose as much: is ", options_.memory.string(),
            " full? See the lines above, and name a folder with room by --memory"));
  return failed;
}

int Launcher::run() {
  name_left_over(options_.memory, options_.resume);
  for (;;) {
    const int status = attempt();
    // A second signal ends mpirun, which of MPICH has status 0 then.
    if (status == 0 && interruptions < 2) return end(0);
    if (interruptions > 0) return end(128 + signal_number);
    if (losses_ == 0 && done() <= first_) {
      tell(text("elastic: mpirun ends with status ", status, " before the first update: no ",
                "rank is lost, so it is not started again; see the lines above"));
      return status;
    }
    if (const std::optional<int> last = last_status(status)) return end(*last);
    note_loss(status);
    copy_.copy();
    if (interruptions > 0) return end(128 + signal_number);
    if (vain_ < options_.tries) continue;
    tell(text("elastic: ", counted(options_.tries, "time"), " in a row a rank was lost before an ",
              "update was saved; see what the program says above"));
    return end(failed);
  }
}

/// Becomes another program, in a process after fork(). Only returns if it can't.
static void become(const std::vector<char*>& words, pid_t parent) {
  ::setpgid(0, 0);
  ::signal(SIGPIPE, SIG_DFL);
#ifdef __linux__
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);  // so that nothing outlives this program
#endif
  if (::getppid() == parent) ::execvp(words[0], words.data());
}

pid_t start_process(std::vector<std::string> words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  int ends[2];
  PG_CHECK(::pipe2(ends, O_CLOEXEC) == 0, "can't make a pipe: ", nn::system_message());
  const pid_t parent = ::getpid(), process = ::fork();
  if (process == 0) {
    become(pointers, parent);
    const int problem = errno;
    [[maybe_unused]] const ssize_t told = ::write(ends[1], &problem, sizeof problem);
    ::_exit(1);
  }
  const nn::Descriptor answer(ends[0]);
  ::close(ends[1]);
  PG_CHECK(process > 0, "can't start a process: ", nn::system_message());
  int problem = 0;
  if (::read(answer.number, &problem, sizeof problem) <= 0) return process;  // it has begun
  ::waitpid(process, nullptr, 0);
  throw UsageError(text("can't start ", words[0], ": ", std::generic_category().message(problem),
                        "; name it with --mpirun"));
}

}  // namespace plangrad::examples
