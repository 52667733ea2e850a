// Silent errors: numbers that a processor, a memory or a network gets wrong without a word. Two
// ranks compute the same and compare what they got, bit for bit.
// Not here: files that are damaged (nn/checkpoint).
// Chapter 05; Hochschild et al. 2021 ("Cores that don't count").
#pragma once

#include "parallel/engine/engine.h"
#include "parallel/session/observer.h"

namespace plangrad::examples {

using namespace plangrad::parallel;

/// The checksum of something that several ranks must have alike.
struct Checksum {
  int stage = 0;  ///< the weights' stage; -1: a message between ranks
  std::string what;
  std::uint32_t checksum = 0;
  static auto fields(auto& x) { return std::tie(x.stage, x.what, x.checksum); }
};

/// Computes a microbatch forward and backward on each stage that this rank keeps, from random
/// activations that all ranks draw alike, and on stage 0 from `batches`. A stage that only one rank
/// keeps is computed by the next rank, too, which gets its weights; on a single rank, or if they
/// are pruned, twice by that rank. Then each rank sends the next one a message. Changes nothing.
/// All ranks call it together, between plans.
///   like: a plan of the run; micro: a microbatch of a later update
std::vector<Checksum> checksums_of(Engine& engine, const Plan& like, Batches& batches, int micro);

/// throws: Error that names ranks, stage and what differs, if two of the same thing differ:
///         the ranks in the minority, or if there is none, all that saw it
///   ranks: checksums_of's results; when: "after update 40"
void compare_checksums(const std::vector<std::vector<Checksum>>& ranks, const std::string& when);

class SilentErrors : public AskingObserver<Nothing, std::vector<Checksum>> {
 public:
  /// every: updates; 0: never
  explicit SilentErrors(int every) : every_(every) {}
  const char* name() const override { return "check"; }
  Border next_border(int done) const override { return {next_multiple(every_, done), name()}; }
  void plan_ended(Lead& lead, const PlanEnd& plan) override;
  void ended(Lead& lead) override;

 private:
  std::vector<Checksum> carry_out(SessionRank& rank, const Nothing&) override;

  const int every_;
  int times_ = 0;
};

}  // namespace plangrad::examples
