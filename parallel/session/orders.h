// Orders: what rank 0 has all ranks of a session do, and what they answer.
// Not here: how it is done (session_rank.h), and when (session_lead.cpp). Chapter 05.
#pragma once

#include <optional>
#include <variant>

#include "autograd/memory_meter.h"
#include "parallel/engine/engine.h"

namespace paragrad::parallel {

/// Bytes by category.
using Peaks = std::map<std::string, std::int64_t>;

struct Nothing {};

/// Run the plan of the next updates.
struct Train {
  int steps = 0;
  bool recorded = false;  ///< with a timeline, and memory over time
  struct Answer {
    RunResult result;
    std::vector<MemoryMeter::Event> memory;
    static auto fields(auto& x) { return std::tie(x.result, x.memory); }
  };
};

/// Compute the loss of the validation data.
struct Validate {
  bool all = false;  ///< or a few batches of it
  using Answer = RunResult;
};

/// Look whether it is time to prune, and prune.
struct Prune {
  using Answer = std::string;  ///< what the log says of it: JSON
};

/// Write what this rank has of a checkpoint.
struct Save {
  struct Answer {
    std::vector<std::pair<std::string, std::int64_t>> files;  ///< names, bytes
    std::string codec;                                        ///< its numbers: JSON
    static auto fields(auto& x) { return std::tie(x.files, x.codec); }
  };
};

/// Use these bits for layers from the next plan on.
struct SetBits {
  Bits bits;
  static auto fields(auto& x) { return std::tie(x.bits); }
  using Answer = Nothing;
};

struct MeasureMemory {
  struct Answer {
    Peaks run;                    ///< in all
    std::optional<Peaks> pruned;  ///< since the last pruning, if there was one
    static auto fields(auto& x) { return std::tie(x.run, x.pruned); }
  };
};

/// Return from the session.
struct End {
  using Answer = Nothing;
};

using Order = std::variant<Train, Validate, Prune, Save, SetBits, MeasureMemory, End>;

}  // namespace paragrad::parallel
