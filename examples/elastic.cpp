// elastic: keeps a training of MPI processes going when ranks are lost. It starts mpirun, saves
// into memory every few updates, and starts again from the newest state when a rank has died.
// Not here: ranks that are threads (train_gpt --elastic). Chapter 15.
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <iostream>
#include <set>
#include <sstream>
#include <thread>

#include "examples/common/elastic.h"
#include "examples/common/help.h"
#include "examples/common/program.h"
#include "examples/common/run_folder.h"
#include "nn/checkpoint/checkpoint.h"
#include "nn/checkpoint/file.h"
#include "parallel/session/report_metrics.h"

extern char** environ;

namespace {

using namespace paragrad::examples;
namespace fs = std::filesystem;
namespace nn = paragrad::nn;
using Clock = std::chrono::steady_clock;

constexpr int misused = 2;  // the status of a program whose flags are wrong
std::atomic<int> interruptions = 0;

struct Options {
  int ranks = 2, every = 5, tries = 3;
  double disk_minutes = 10;
  bool fewer = false;
  std::string mpirun = "mpirun";
  fs::path memory = "/dev/shm", out;
};

/// A folder of this run in memory, which goes with the object.
class MemoryFolder {
 public:
  explicit MemoryFolder(const fs::path& parent) {
    std::string name = (parent / "paragrad-elastic-XXXXXX").string();
    PG_CHECK(::mkdtemp(name.data()), "can't make a folder like ", name, ": ", nn::system_message(),
             "; name a folder in memory with --memory");
    path_ = name;
  }
  ~MemoryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  MemoryFolder(const MemoryFolder&) = delete;
  MemoryFolder& operator=(const MemoryFolder&) = delete;

  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

/// The update of the newest intact checkpoint; 0: there is none.
int saved_in(const fs::path& folder) {
  try {
    const fs::path checkpoint = folder / "checkpoint";
    const std::string manifest = nn::find_intact(checkpoint).manifest;
    return static_cast<int>(nn::Checkpoint(checkpoint, manifest).step());
  } catch (const paragrad::autograd::Error&) {
    return 0;
  }
}

/// The last update that rank 0 has written a line of.
int done_in(const fs::path& folder) {
  int done = 0;
  for (const char* name : {"metrics.jsonl", "metrics.jsonl.partial"})
    for (const nlohmann::json& line : paragrad::parallel::metrics_of(folder / name))
      if (line.contains("loss")) done = std::max(done, line["step"].get<int>());
  return done;
}

/// Copies a file; an earlier one stays until the new one is complete and on disk.
void copy_whole(const fs::path& from, const fs::path& to) {
  fs::path partial = to;
  partial += ".partial";
  fs::copy_file(from, partial, fs::copy_options::overwrite_existing);
  nn::sync_to_disk(partial);
  fs::rename(partial, to);
}

/// Copies a run's folder: the files of its checkpoint, the manifest that names them, then the rest.
/// Returns the paths of the copies.
/// throws: std::exception if a file is not there any more, as the run has saved meanwhile
std::set<fs::path> copy_run(const fs::path& from, const fs::path& to) {
  const fs::path checkpoint = to / "checkpoint";
  std::set<fs::path> copies;
  auto copy = [&copies](const fs::path& file, const fs::path& target) {
    copy_whole(file, target);
    copies.insert(target);
  };
  nn::make_folder(checkpoint);
  const nn::Checkpoint newest(from / "checkpoint");  // keeps its files open
  for (const nn::SafetensorsFile& file : newest.files())
    copy(file.path(), checkpoint / fs::path(file.path()).filename());
  copy(from / "checkpoint" / nn::manifest_name, checkpoint / nn::manifest_name);
  nn::sync_to_disk(checkpoint);
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(from)) {
    const fs::path name = fs::relative(entry.path(), from);
    if (entry.is_directory()) nn::make_folder(to / name);
    const bool is_of_run = *name.begin() != "checkpoint" && name != "paragrad.lock";
    if (entry.is_regular_file() && is_of_run) copy(entry.path(), to / name);
  }
  return copies;
}

/// Starts a program in a process group of its own, so that Ctrl-C reaches this program alone.
pid_t start(Words words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  pid_t process = 0;
  const int problem =
      posix_spawnp(&process, pointers[0], nullptr, &attributes, pointers.data(), environ);
  posix_spawnattr_destroy(&attributes);
  PG_CHECK(problem == 0, "can't start ", words[0], ": ", std::generic_category().message(problem),
           "; name it with --mpirun");
  return process;
}

class Launcher {
 public:
  Launcher(Options options, Words words) : options_(std::move(options)), words_(std::move(words)) {
    for (const char* flag : {"--out", "--transport", "--save-every"}) remove_flag(words_, flag);
  }
  int run();

 private:
  Words command(const nlohmann::json& layout) const;
  int attempt();
  int attempt_with(const nlohmann::json& layout);
  void note_loss(int status);
  void copy_to_disk();

  Options options_;
  Words words_;  // the program and its flags
  MemoryFolder memory_{options_.memory};
  std::string news_;
  std::set<fs::path> copies_;  // on disk
  Clock::time_point copied_ = Clock::now();
  int saved_ = 0, losses_ = 0, repeated_ = 0, vain_ = 0;
};

/// The command of mpirun: from the newest state in memory, if there is one.
Words Launcher::command(const nlohmann::json& layout) const {
  Words all, own = words_;
  std::istringstream words(options_.mpirun);
  for (std::string word; words >> word;) all.push_back(word);
  all.insert(all.end(), {"-n", std::to_string(options_.ranks)});
  const std::string folder = memory_.path().string();
  if (saved_ > 0) {
    for (const char* flag : {"--resume", "--from", "--lose"}) remove_flag(own, flag);
    own.push_back("--resume=" + folder);
  }
  all.insert(all.end(), own.begin(), own.end());
  all.insert(all.end(),
             {"--transport=mpi", text("--save-every=", options_.every), "--out=" + folder});
  if (!news_.empty()) all.push_back("--note=" + news_);
  if (!layout.is_null())
    for (const std::string& word : layout_words(layout)) all.push_back(word);
  return all;
}

void Launcher::copy_to_disk() {
  copied_ = Clock::now();
  try {
    if (saved_in(memory_.path()) == 0) return;
    const std::set<fs::path> before =
        std::exchange(copies_, copy_run(memory_.path(), options_.out));
    std::error_code ignored;
    for (const fs::path& old : before)
      if (!copies_.contains(old)) fs::remove(old, ignored);
  } catch (const std::exception& error) {
    std::cerr << text("elastic: the state in memory is not copied to ", options_.out.string(),
                      " now: ", error.what(), '\n');
  }
}

/// Runs mpirun to its end, and returns its status as a shell has it.
int Launcher::attempt_with(const nlohmann::json& layout) {
  const pid_t process = start(command(layout));
  int status = 0, told = 0;
  while (::waitpid(process, &status, WNOHANG) == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const std::chrono::duration<double> old = Clock::now() - copied_;
    if (old.count() > 60 * options_.disk_minutes) copy_to_disk();
    if (told == interruptions) continue;
    ::kill(process, told == 0 ? SIGUSR1 : SIGTERM);  // mpirun passes SIGUSR1 on: save and stop
    told = interruptions;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// Runs the layout that the user asks for; with fewer ranks, the first that its schedule can have.
int Launcher::attempt() {
  if (!options_.fewer || saved_ == 0) return attempt_with(nullptr);
  const nn::Checkpoint checkpoint(memory_.path() / "checkpoint");
  int status = misused;
  for (const nlohmann::json& layout : layouts_for(options_.ranks, checkpoint.run().at("flags")))
    if (status == misused) status = attempt_with(layout);
  return status;
}

void Launcher::note_loss(int status) {
  const int saved = saved_in(memory_.path()), done = std::max(saved, done_in(memory_.path()));
  vain_ = saved > saved_ ? 0 : vain_ + 1;
  saved_ = saved;
  ++losses_;
  repeated_ += done - saved;
  if (options_.fewer && saved > 0) options_.ranks = std::max(1, options_.ranks - 1);
  news_ = text("a rank is lost after update ", done, " (status ", status, "); ", options_.ranks,
               options_.ranks == 1 ? " rank goes" : " ranks go", " on after update ", saved, ", ",
               done - saved, done - saved == 1 ? " update is" : " updates are", " done again");
  std::cerr << "elastic: " + news_ + '\n';
}

int Launcher::run() {
  for (;;) {
    const int status = attempt();
    const bool ended = status == 0 || status == misused || interruptions != 0;
    if (!ended) note_loss(status);
    copy_to_disk();
    if (ended) {
      std::cerr << text("elastic: ", losses_, losses_ == 1 ? " loss; " : " losses; ", repeated_,
                        " of ", done_in(memory_.path()), " updates were done again; the run is in ",
                        options_.out.string(), '\n');
      return status;
    }
    const bool goes_on = vain_ < options_.tries;
    PG_CHECK(goes_on, options_.tries,
             " times in a row a rank was lost before an update was saved; ",
             "see what the program says above",
             saved_ == 0 ? "" : text("; the run so far is in ", options_.out.string()));
  }
}

/// The value of a flag in words of a command; empty: it is not there.
std::string value_of(const Words& words, const std::string& name) {
  std::string value;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i].starts_with(name + '=')) value = words[i].substr(name.size() + 1);
    if (words[i] == name && i + 1 < words.size()) value = words[i + 1];
  }
  return value;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Keeps a training going when ranks are lost: starts it as processes by mpirun, saves into "
      "memory every few updates, and starts it again from there when a rank has died. At the end, "
      "and every few minutes, the run is copied to the program's --out.",
      "elastic");
  Options options;
  Flags flags(app);
  flags.whole("-n", options.ranks, 1, "ranks");
  flags.whole("--every", options.every, 1, "updates between saves into memory");
  flags.yes("--fewer", options.fewer,
            "go on with a rank less after each loss, instead of starting as many again");
  flags.number("--disk-minutes", options.disk_minutes, 0, 1e6,
               "minutes between copies from memory to disk");
  flags.whole("--tries", options.tries, 1,
              "losses in a row, without a new save between them, after which to give up");
  flags.words("--memory", options.memory, "DIR", "folder in memory, which all ranks must see")
      ->capture_default_str();
  flags.words("--mpirun", options.mpirun, "COMMAND", "what starts the ranks, with its own flags")
      ->capture_default_str();
  add_examples(app, {{"Train on eight ranks of this machine",
                      "elastic -n 8 train_gpt --data my.txt --data-parallel 8 --batch 16"}});
  app.prefix_command();
  return run_program(app, [&] {
    app.parse(argc, argv);
    const Words words = app.remaining();
    if (words.empty() || words[0].starts_with('-'))
      throw UsageError("name the program to start, and its flags: elastic -n 8 train_gpt ...");
    options.out = value_of(words, "--out");
    if (options.out.empty()) options.out = new_run_folder("elastic");
    for (int number : {SIGINT, SIGTERM, SIGHUP}) ::signal(number, [](int) { ++interruptions; });
    return Launcher(options, words).run();
  });
}
