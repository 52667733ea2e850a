// Costs: what the simulator is told about a machine and a model, and what follows for one
// instruction. Not here: when an instruction runs (simulate). Chapter 06.
#pragma once

#include <functional>
#include <limits>
#include <memory>

#include "parallel/collectives/collective.h"
#include "parallel/plan/plan.h"

namespace plangrad::parallel {

template <class Object>
struct Field;     // plan/fields.h
struct Machine;   // machine.h
struct Topology;  // links.h

/// The value of a list for one stage or rank. Lists hold one for each, or one for all.
template <class T>
T value_at(int index, const std::vector<T>& list) {
  return list.size() == 1 ? list[0] : list.at(index);
}

/// Costs in seconds, bytes, and bytes per second. A list holds a value for each stage, or one for
/// all stages; `slowness` holds values for ranks.
struct Costs {
  std::vector<double> forward = {1};     ///< forward of one microbatch
  std::vector<double> backward = {2};    ///< backward of one: two products for a forward's one
  std::vector<double> input_part = {};   ///< I, a backward's first part; empty: half of backward
  std::vector<double> weight_part = {};  ///< W, the second part; empty: half of backward
  std::vector<double> step = {0};        ///< the last value is the tied stage's
  double bandwidth = std::numeric_limits<double>::infinity();  ///< every link's, each way
  double latency = 0;                                          ///< every message's
  std::shared_ptr<const Machine> machine =
      {};  ///< if set, messages take its links, instead of those with this bandwidth and latency
  std::vector<int> devices = {};  ///< the device of each rank; empty: rank r computes on device r
  Summing sums = {};  ///< how groups add up, and the hosts of all ranks; empty: the machine's
  std::vector<std::int64_t> activation_bytes = {0};  ///< a stage's output for one microbatch
  std::vector<std::int64_t> output_bytes =
      {};  ///< that output in memory, where no codec makes it shorter; empty: as activation_bytes
  std::vector<std::int64_t> activation_gradient_bytes =
      {};  ///< the gradient of that output; empty: as activation_bytes
  std::vector<std::int64_t> weight_bytes = {0};  ///< the last value is the tied stage's
  std::vector<std::int64_t> sum_bytes = {};      ///< a sum of gradients; empty: as weight_bytes
  std::vector<double> slowness = {1};            ///< factor on the time of each rank's computations
  std::function<double(const Instruction&, int rank, int cell)> computation =
      {};  ///< if set, how long each forward, backward and update takes, instead of all the above;
           ///< cell: its place in the rank's row
};

/// The costs that users can give.
const std::vector<const Field<Costs>*>& cost_fields();

/// throws: Error if a list does not fit the plan, or a cost is no number or negative
void check(const Costs& costs, const Plan& plan);

/// Encodes messages of activations, whose bytes were those in memory, and of their gradients.
///   element: bytes of a value
void encode_activations(Costs& costs, const CodecSpec& channel, int element = 4);

/// The costs with messages as short as the plan's codecs make those of f32 values.
///   weights_name: what the error calls weight_bytes, as "--weight-bytes"
/// throws: Error if their length depends on shapes, as with lowrank and pca
Costs encoded(Costs costs, const Plan& plan, const char* weights_name = "weight_bytes");

/// How long an instruction takes on a rank while no other message uses its links; a fold and a drop
/// take no time.
///   forward, backward, step:  the stage's, times the rank's slowness
///   send, recv:  latency + bytes / bandwidth
///   all-reduce, gather:  as long as the messages of their lists (meetings.cpp)
/// units:  seconds
/// source: Patarasuk and Yuan 2009, section 3;  tutorial 04
double duration(const Instruction& instruction, int rank, const Plan& plan, const Costs& costs);

/// Bytes of the value that an instruction moves or reduces.
std::int64_t bytes_of(const Instruction& instruction, const Costs& costs);
/// What a rank sends in an instruction: `sends` messages, each 1 / chunks of a value, in `rounds`,
/// of which each waits for the one before: those of the list, of at most pieces_in_flight sends.
struct Sent {
  std::int64_t sends = 0, chunks = 1, rounds = 1;
};
Sent sent_by(const Instruction& instruction, int rank, const Plan& plan, const Costs& costs);

/// How long a sum or gather takes while nothing else uses its links.
/// throws: Error if the plan is sharded, and the reduction has no part for each member
double meeting_seconds(const Instruction& x, const Plan& plan, const Costs& costs);

/// The links that messages take: the machine's, or one for each ordered pair of ranks.
Topology topology_of(const Costs& costs);

/// Bytes that a rank sends in an instruction; a recv sends nothing.
///   all-reduce by ring or scatter: 2 (N-1)/N bytes;  gather and reduce-scatter: (N-1)/N bytes
std::int64_t bytes_sent(const Instruction& instruction, int rank, const Plan& plan,
                        const Costs& costs);

}  // namespace plangrad::parallel
