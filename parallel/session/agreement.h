// What ranks compare: how they were started, what they resume, and the weights that replicas share.
// Not here: the folder that they write to (folder_claim.h). Chapter 05.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "parallel/session/session.h"

namespace plangrad::parallel {

/// Compares what ranks say of the run: processes can be started with other flags, read other data
/// or another checkpoint, or be other builds, whose replicas would drift apart. All ranks call it.
/// throws: Error that names a rank that differs from rank 0
void check_agreement(Transport& transport, const SessionSettings& settings);

/// Returns rank 0's `own` on all ranks, or a random one if that is empty.
std::string common_run_id(Transport& transport, const std::string& own, double timeout);

/// The CRC-32 of a tensor's bytes, continued from that of other bytes `before` it.
std::uint32_t checksum_of(const Tensor& x, std::uint32_t before = 0);

/// The CRC-32 of the newest weights of each stage that this rank holds whole (no shard of ZeRO 3).
using WeightsChecksums = std::map<int, std::uint32_t>;
WeightsChecksums weights_checksums(Engine& engine);

/// The state of some rank is wrong, so it must not be saved.
struct WrongState : autograd::Error {
  using Error::Error;
};

/// Compares the weights of replicas, given those of all ranks. `when` ends the error's first part.
/// throws: WrongState that names a stage, and two ranks whose weights of it differ
void check_replicas(const std::vector<WeightsChecksums>& ranks, const std::string& when);

/// Compares the weights that replicas begin with. All ranks call it.
void check_first_weights(Engine& engine, int steps);

}  // namespace plangrad::parallel
