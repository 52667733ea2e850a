// ModelFlags: the flags of `plan simulate` that name a model and say how it is trained, and the
// memory that ranks then need. RunCosts: what a finished run says of its model and of the time that
// its computations took. Not here: what a model costs (parallel/planner), and how a run measures it
// (parallel/observers/recording.h). Chapters 06 and 16.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>

#include "parallel/planner/peak.h"
#include "parallel/planner/stage_seconds.h"
#include "parallel/schedules/layout.h"

namespace plangrad::examples {

class Flags;

/// Names the models that --model takes, and says which files it takes.
std::string model_words();

struct ModelFlags {
  std::string model = {};               ///< a name or a file; empty: none
  int sequences = 1;                    ///< sequences of a microbatch
  std::string dtype = {}, device = {};  ///< empty: those of dtype_on() and device_on()
  int threads = 1;
  double prune = 0;

  void add_flags(Flags& flags);
  /// Whether the model, cut into so many stages, has a tensor that two of them share.
  bool is_tied(int stages) const;
  /// The costs of the model's stages in this plan.
  ///   layout: of the plan: its cuts count, and whether it recomputes, which a plan with one stage
  ///   does layer by layer
  ///   machine: that it runs on; null: not known
  /// throws: Error, also if the plan and the model disagree about stages or tied tensors
  parallel::ModelCosts costs(const parallel::Plan& plan, const parallel::Layout& layout,
                             const parallel::Machine* machine) const;
};

/// The type of values, and the device whose memory counts, as flags give them. Empty: the type in
/// which the machine is faster, and cpu where its devices have cores; without a machine f32, cpu.
autograd::DType dtype_on(const parallel::Machine* machine, const std::string& given);
std::string device_on(const parallel::Machine* machine, const std::string& given);

/// Sets the compute threads, and returns the kernels of the device "cpu", whose scratch is part of
/// a rank's memory. The device "gpu" has none here: null.
std::shared_ptr<autograd::Backend> kernels_of(const std::string& device, int threads);

/// Takes from a model what the costs do not give: bytes of messages and, on a machine, seconds of
/// computations, each with the host's work before it, and of updates.
/// throws: Error if the machine does not say how fast it is
parallel::Costs with_model(parallel::Costs costs, const parallel::ModelCosts& model,
                           const parallel::Plan& plan);

/// The peaks of all ranks, and what the fullest one has then: like the facts' "memory", with the
/// cell that runs then and the bytes while a checkpoint is saved.
nlohmann::json memory_json(const std::vector<parallel::Peak>& peaks);

struct RunCosts {
  parallel::PlannedModel model;
  parallel::MeasuredSeconds seconds;
  std::string dtype, device;
  int threads = 1;  ///< threads of a plan's rank, on the CPU
  int batch = 1, ranks = 1;
  std::string data;  ///< words of a command: its text, and how that is cut into tokens
};

/// Reads the folder of a run.
///   model: a name or a file; empty: the run's, if it is a GPT
///   devices: the most ranks of a plan; 0: the run's
/// throws: Error if the folder has no costs, or those of another model
RunCosts run_costs(const std::filesystem::path& folder, const std::string& model, int devices);

}  // namespace plangrad::examples
