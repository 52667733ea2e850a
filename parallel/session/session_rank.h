// SessionRank: one rank of a session. It makes its engine, from a checkpoint or anew, and carries
// out the orders that rank 0 gives to all ranks; each rank answers.
// Not here: which orders, and when (session_lead.cpp). Chapter 05.
#pragma once

#include <variant>

#include "parallel/session/agreement.h"
#include "parallel/session/folder_claim.h"
#include "parallel/session/machine.h"
#include "parallel/session/profile_report.h"
#include "parallel/session/rescue.h"
#include "parallel/session/session.h"
#include "parallel/session/state_writer.h"
#include "parallel/transports/launch.h"
#include "parallel/transports/pack.h"

namespace plangrad::parallel {

/// Bytes by category.
using Peaks = std::map<std::string, std::int64_t>;

/// Run the plan of the next updates.
struct Train {
  int steps = 0;
  bool recorded = false;  ///< with a timeline, and memory over time
  int report_every = 0;   ///< not 0: run the endless plan for `steps` updates, or somewhat fewer,
                          ///< and report after so many bodies
  struct Answer {
    RunResult result;
    std::vector<MemoryMeter::Event> memory;
    static auto fields(auto& x) { return std::tie(x.result, x.memory); }
  };
};

/// Have the observer of this name answer.
struct Ask {
  std::string observer, question;
  static auto fields(auto& x) { return std::tie(x.observer, x.question); }
  using Answer = std::string;
};

/// Begin to write this rank's files of a checkpoint.
struct Save {
  std::string out;  ///< the run's folder, as it is called now
  static auto fields(auto& x) { return std::tie(x.out); }
  struct Answer {
    std::vector<CheckpointFile> files;  ///< as they will be
    std::string codec;                  ///< its numbers: JSON
    WeightsChecksums weights;           ///< to compare replicas
    static auto fields(auto& x) { return std::tie(x.files, x.codec, x.weights); }
  };
};

/// Finish these files.
struct FinishFiles {
  using Answer = std::vector<CheckpointFile>;  ///< as they are
};

/// Use these bits for layers from the next plan on.
struct SetBits {
  Bits bits;
  static auto fields(auto& x) { return std::tie(x.bits); }
  using Answer = Nothing;
};

/// Report the peaks of memory, in bytes, and the cores that the rank may use.
struct MeasureMemory {
  struct Answer {
    Peaks run;         ///< of the whole session, but for validations
    Peaks pruned;      ///< the same since the last pruning, if there was one
    Peaks validation;  ///< of validations; empty before the first
    RankCores cores = cores_here();
    static auto fields(auto& x) { return std::tie(x.run, x.pruned, x.validation, x.cores); }
  };
};

/// Report what kernels took, and measure what they could have taken.
struct TellProfile {
  using Answer = RankProfile;
};

/// Return from the session.
struct End {
  using Answer = Nothing;
};

using Order = std::variant<Train, Ask, Save, FinishFiles, SetBits, MeasureMemory, TellProfile, End>;

/// The result of all ranks: sums, maxima or unions of theirs. The order of cells and the options of
/// bits are left out: each rank has its own.
RunResult merged(const std::vector<RunResult>& ranks);

/// The mean loss of an update's microbatches, and the norm of its mean gradient.
/// throws: std::out_of_range if no rank has told of them
double loss_of(const RunResult& world, int version, int per_step);
double gradient_norm_of(const RunResult& world, int version, int per_step, bool clips);

/// The part of a meter's timeline that is worth telling. Of a long one, only the highest and the
/// last event of each category in each thousandth of the time stay, so that peaks do.
std::vector<MemoryMeter::Event> outstanding(const std::vector<MemoryMeter::Event>& events);

class SessionRank {
 public:
  /// The arguments but for the settings are kept by reference and must outlive it.
  SessionRank(const Training& training, Transport& transport, const DevicePtr& device,
              RunData& data, const SessionSettings& settings);

  virtual ~SessionRank() = default;
  /// Carries out rank 0's orders, until the session ends.
  void follow();
  /// What this rank still has when the session fails (rescue.cpp).
  Remains remains();

  Engine& engine() { return engine_; }
  RunData& data() { return data_; }
  const SessionSettings& settings() const { return settings_; }
  int steps() const { return steps_; }
  /// The shortest plan from now on; making it takes a while, in which others wait.
  Plan plan_at_work();
  /// Notes that the state has another form now: codecs and peaks of memory begin anew.
  void form_changed();
  /// Between these two calls, peaks of memory are those of validations.
  void begin_validation();
  void end_validation();

 protected:
  /// Has all ranks carry out an order, and returns their answers by rank. Rank 0 calls it.
  template <class What>
  std::vector<typename What::Answer> order(const What& what) {
    broadcast_bytes(engine_.transport(), pack(Order(what)), settings_.engine.timeout);
    std::vector<typename What::Answer> answers;
    for (std::string& bytes : answer(what))
      answers.push_back(unpack<typename What::Answer>(std::move(bytes)));
    return answers;
  }
  /// The shortest plan of the run that begins now.
  Plans::Shared like() const { return settings_.plans->shortest(steps_); }

  /// The endless plan of the run that begins now (Plans::endless); finding it can take a while.
  Plans::Shared endless_plan();
  /// Rank 0: takes results of all ranks, in the midst of an endless plan and at the end of any, and
  /// returns whether to go on.
  virtual bool hear(const std::vector<RunResult>&) { return true; }

  SessionSettings settings_;  // `out` follows the folder
  Engine engine_;
  Observers observers_ = settings_.observers();
  RunData& data_;
  int first_ = 0, steps_ = 0;  // updates done before this session, and by now
  int bits_every_ = 0;         // updates between choices of bits; 0: they are not chosen
  Bits bits_;                  // chosen last
  std::string lost_;           // what of a checkpoint this run can't use, for the user
  std::string run_id_;         // the same from the run's first session to its last
  RunResult left_;             // of a plan that failed
  std::optional<FolderClaim> claim_;
  StateWriter writer_;  // ends before the claim

 private:
  void begin();
  Train::Answer carry_out(const Train& what);
  Ask::Answer carry_out(const Ask& what);
  Save::Answer carry_out(const Save& what);
  FinishFiles::Answer carry_out(const FinishFiles&);
  SetBits::Answer carry_out(const SetBits& what);
  MeasureMemory::Answer carry_out(const MeasureMemory&);
  TellProfile::Answer carry_out(const TellProfile&) { return profile_found(*engine_.device()); }
  End::Answer carry_out(const End&) { return {}; }

  /// Carries out an order. A profile, if the device has one, counts while the rank trains.
  template <class What>
  typename What::Answer profiled(const What& what) {
    KernelProfile* profile = std::is_same_v<What, Train> ? profile_of(*engine_.device()) : nullptr;
    if (!profile) return carry_out(what);
    const int before = steps_;
    profile->begin();
    typename What::Answer answer = carry_out(what);
    profile->end(steps_ - before);
    return answer;
  }

  /// The answers of all ranks, packed, on rank 0.
  template <class What>
  std::vector<std::string> answer(const What& what) {
    typename What::Answer own = profiled(what);
    if constexpr (std::is_same_v<What, Train>)
      own.result.interrupted = engine_.transport().rank() > 0 && settings_.interrupted_here();
    return gather_bytes(engine_.transport(), pack(own), settings_.engine.timeout);
  }
  void begin_pruned();

  bool begun_ = false, cuts_peaks_ = false;
  Peaks peaks_before_;  // up to the last pruning, or the resumption of a pruned run
  Peaks peaks_;         // since then, up to the last validation
  Peaks peaks_validating_;
};

}  // namespace plangrad::parallel
