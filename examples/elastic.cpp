// elastic: keeps a training of MPI processes going when ranks are lost. Its flags, and the folders
// of its runs. Not here: how processes are started again (launcher.h), and ranks that are threads
// (train_gpt --elastic). Chapter 15.
#include <unistd.h>

#include "examples/elastic/launcher.h"
#include "examples/programs/program.h"
#include "examples/programs/run_folder.h"
#include "nn/checkpoint/checkpoint.h"
#include "parallel/session/agreement.h"

namespace {

using namespace plangrad::examples;
namespace fs = std::filesystem;
namespace nn = plangrad::nn;

/// Finds the folders and the update that words of a command ask for, as the program itself would.
void find_folders(LaunchOptions& options, const Words& words) {
  options.out = value_of(words, "--out");
  options.resume = value_of(words, "--resume");
  if (!options.resume.empty()) options.resume = nn::run_of(options.resume);
  if (const std::string at = value_of(words, "--at"); !at.empty())
    options.at = std::atoi(at.c_str());
  if (options.out.empty()) options.out = options.resume;
  options.is_new = options.out.empty();
  if (options.is_new) options.out = new_run_folder("elastic");
}

/// throws: UsageError if a command names no program, or asks for what this program sees to
void check_words(const Words& words) {
  if (words.empty())
    throw UsageError("name the program to start, and its flags: elastic -n 8 train_gpt ...");
  auto refuse = [&](const char* flag, const char* why) {
    const std::string value = value_of(words, flag);
    if (!value.empty() && value != "mpi") throw UsageError(text("leave out ", flag, ": ", why));
  };
  refuse("--stop-after",
         "each new start would count anew; to stop a run, press Ctrl-C or send SIGTERM, and it "
         "saves");
  refuse("--save-every",
         "elastic has the run save into memory, with --every before the program's name, and copies "
         "that to disk, with --disk-minutes");
  refuse("--transport", "the ranks are processes, which send by MPI");
}

/// Locks the run's folder. Copies edited files aside, which copies from memory replace.
/// throws: Error if --out holds what the run would replace, or another run writes there
auto locked_folder(const LaunchOptions& options, const Words& words) {
  plangrad::parallel::SessionScope scope;
  std::error_code ignored;
  scope.out = options.out;
  scope.overwrite = std::ranges::count(words, "--overwrite") > 0;
  if (fs::equivalent(options.out, options.resume, ignored)) scope.out = options.resume;
  scope.resume_from(options.resume);
  check_out(scope);
  auto lock = std::make_shared<plangrad::parallel::FolderLock>(options.out);
  if (options.at >= 0 && scope.out == scope.resume && saved_in(scope.out) > options.at)
    tell(text("note: the first copy takes the place of later updates in ", scope.out.string(),
              "; they stay if you name another --out"));
  if (const std::string kept = keep_edited_files(scope); !kept.empty()) tell("elastic: " + kept);
  return lock;
}

/// throws: Error unless mpirun finds the program: in PATH or, as Open MPI does, in this folder; or
///         if a rank that it starts alone would take itself for one of several
void check_start(const LaunchOptions& options, const std::string& program) {
  PG_CHECK((options.ranks > 1 && !options.fewer) || !plangrad::parallel::rank_environment(),
           "a launcher's variables say that this is one of several processes: start it without ",
           "them, ", plangrad::parallel::without_ranks(), " elastic ...");
  const char* path = std::getenv("PATH");
  std::error_code none;
  for (const fs::path folder : plangrad::parallel::split(text(path ? path : "", ":."), ':'))
    if (fs::is_regular_file(folder / program, none) && !::access((folder / program).c_str(), X_OK))
      return;
  const bool has_path = program.find('/') != program.npos;
  throw plangrad::autograd::Error(
      text("there is no program ", program,
           has_path ? ", or it may not be started" : ": name it with its path"));
}

/// Removes a run's folder at the end if nothing is in it.
struct RemoveEmpty {
  fs::path run;
  ~RemoveEmpty() {
    if (::access((run / "plangrad.lock").c_str(), F_OK) == 0) return;  // of another run
    ::rmdir((run / "checkpoint").c_str());
    ::rmdir(run.c_str());
  }
};

/// Starts the run, and holds its folder meanwhile.
int launch(const LaunchOptions& asked, const Words& words) {
  const RemoveEmpty afterwards{asked.out};
  LaunchOptions options = asked;  // which frees the lock before
  options.lock = usage([&] { return locked_folder(options, words); });
  const auto launcher = usage([&] { return std::make_unique<Launcher>(options, words); });
  usage([&] { check_start(options, words[0]); });
  return launcher->run();
}

}  // namespace

int main(int argc, char** argv) {
  Flags flags(
      "Keeps a training going when ranks are lost: starts it as processes by mpirun, saves into "
      "memory every few updates, and starts it again from there when a rank has died. At the end, "
      "and every few minutes, the run is copied to the program's --out.",
      "elastic");
  LaunchOptions options;
  flags.whole("-n", options.ranks, 1, "ranks", plangrad::parallel::most_ranks);
  flags.whole("--every", options.every, 1, "updates between saves into memory");
  flags.yes("--fewer", options.fewer,
            "start a rank less after each loss, instead of as many again");
  flags.number("--disk-minutes", options.disk_minutes, 0, 1e6,
               "minutes between copies from memory to disk");
  flags.whole("--tries", options.tries, 1,
              "losses in a row, without a new save between them, after which to give up");
  flags.words("--memory", options.memory, "DIR", "folder in memory, which all ranks must see")
      .show_default();
  flags.words("--mpirun", options.mpirun, "COMMAND", "what starts the ranks, with its own flags")
      .show_default();
  add_examples(flags, {{"Train on eight ranks of this machine",
                        "elastic -n 8 train_gpt --data my.txt --data-parallel 8 --batch 16"}});
  return run_program(flags, [&] {
    const Words words = flags.parse(argc, argv, /*front*/ true);
    check_words(words);
    usage([&] { find_folders(options, words); });
    note_signals();
    return launch(options, words);
  });
}
