// RunFlags: the flags that all training programs have, as values: checked, saved with a run, and
// read back to resume it. Not here: a program's model and data, and the run itself. Chapter 02.
#pragma once

#include "examples/elastic/elastic.h"
#include "examples/programs/plan_flags.h"
#include "examples/programs/pretend_flags.h"
#include "examples/programs/program.h"
#include "examples/programs/prune_flags.h"
#include "parallel/session/session.h"

namespace plangrad::examples {

using namespace plangrad::nn;

struct RunFlags : parallel::SessionScope {
  std::string program, examples, kind_of_data;  ///< as in "train_gpt", "sequences", "text"
  std::filesystem::path data;
  int evaluate_every = 250, check_every = 0;  // updates; 0: only at the end, never
  bool quiet = false, profile = false;
  std::int64_t batch = 12, warmup = -1;
  double learning_rate = 1e-3, lowest_rate = -1, clip = 1;
  double timeout = 60;
  std::int64_t seed = 1337;
  bool cuda_graph = false;
  ScheduleFlags parts;              // how the work is laid out over ranks
  std::filesystem::path plan_from;  // what plan search printed, and which of its rows is trained
  int row = 1;
  std::int64_t planned_vocabulary = 0;  // of the plan's model; 0: not known
  std::int64_t at = -1;                 // the update to continue from; -1: the newest
  PruneFlags prune;
  PretendFlags pretend;
  bool elastic = false;
  std::string lose;             // ranks, on purpose
  std::string note;             // of the program elastic
  Attempt attempt;              // which session of an elastic run this is
  std::int64_t memory_cap = 0;  // bytes per rank; 0: see cap()
  int ranks = 0;                // 0: as many as the layout needs
  int ranks_per_host = 0;       // 0: group ranks by host name
  std::string device = "cpu", dtype, transport = "threads", reduction = "auto";

  std::set<std::string> typed;  ///< names of the flags that this command line has itself
  /// Names of the flags that a resumed run has from its checkpoint, and whether it can change them.
  std::map<std::string, bool> from_checkpoint;
  std::set<std::string> saved_files;  ///< those of them that name files
  nlohmann::json saved;               ///< the flags that affect the run's result, with their values

  RunFlags() { out.clear(); }  // a folder of its own for each run

  /// Adds flags in the order of --help; a program adds its own before these and between them.
  /// `rate` describes --learning-rate.
  void add_length_flags(Flags& flags, const char* rate = "highest learning rate");
  void add_run_flags(Flags& flags);  ///< adds the flags of layout and machine, too

  /// Parses a command line. With --resume, the flags of the saved run come first; `fixed` names
  /// those that must not change.
  /// throws: Error if a flag contradicts the saved run
  void parse(CLI::App& app, Words own, const std::vector<std::string>& fixed);

  /// Whether this command line itself has one of these flags. What a resumed or elastic run had
  /// before gives way to a layout that has no use for it.
  bool asks(std::initializer_list<const char*> names) const {
    const auto is_typed = [this](const char* name) { return typed.contains(name); };
    return attempt.number == 0 && (!resumed || std::ranges::any_of(names, is_typed));
  }
  /// Adds to an error which of its flags come from the checkpoint, and what to do about that.
  std::string with_origin(std::string what) const;
  /// throws: Error if flags contradict each other, or ask for something this build lacks
  void check() const;
  /// The type of weights and activations; on a GPU, f32 takes fifteen times as long as bf16. tf32
  /// is no other type: it says how f32 is multiplied.
  autograd::DType type() const {
    const bool narrow = dtype.empty() ? device == "cuda" : dtype == "bf16";
    return narrow ? autograd::DType::bf16 : autograd::DType::f32;
  }
  /// The learning rate's course that the flags describe.
  nn::LearningRate rate() const;
  /// Says where and why a resumed run's learning rate leaves its course; empty: nowhere.
  std::string other_rate() const;
  /// Rejects a run that can't fit, before anything is written. `remedies`: flags that would help.
  void check_memory(double bytes, const std::string& remedies) const;
  /// The bytes that a rank may hold; 0: any number. Without --memory-cap, the ranks on the CPU of
  /// this host share what it has left: Linux itself grants more, and ends a process that fills it.
  std::int64_t cap(int ranks_here) const;

 private:
  std::vector<std::string> planned_words(const CLI::App& app);
  void add_layout_flags(Flags& flags);
  void add_machine_flags(Flags& flags);
  void open_checkpoint(const std::filesystem::path& folder, bool moved, bool leads);
  void resume_flags(CLI::App& app, const std::vector<std::string>& own,
                    const std::vector<std::string>& fixed);
};

}  // namespace plangrad::examples
