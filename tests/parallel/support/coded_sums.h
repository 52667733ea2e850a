// Sums of a group's buffers by CollectiveRun and BufferCodec, a thread a member, without a plan:
// what tests of encoded reductions share.
// Not here: what the sums should be.
#pragma once

#include <numeric>

#include "autograd/cpu/cpu_backend.h"
#include "parallel/codecs/message_codec.h"
#include "parallel/collectives/collective_run.h"
#include "parallel/transports/launch.h"

namespace plangrad::tests {

using namespace nn;
using namespace parallel;

/// Which sum: over how many, how, in pieces of how many elements.
struct CodedSum {
  Summing how;
  int members = 2;
  std::int64_t piece = 1000;
};

/// The result of each member.
struct CodedResult {
  std::vector<std::vector<float>> values;
  std::vector<std::int64_t> bytes_sent;
};

inline std::vector<float> values_of(const Tensor& x) {
  std::vector<float> values(x.numel());
  x.backend().copy_to_host(x, values.data());
  return values;
}

/// input(member): its own values, as many as `parameters` have.
inline CodedResult coded_sum(const CodedSum& sum, const ParameterList& parameters,
                             const CodecSpec& spec,
                             const std::function<std::vector<float>(int member)>& input) {
  CodedResult result;
  result.values.resize(sum.members);
  result.bytes_sent.resize(sum.members);
  std::vector<int> ranks(sum.members);
  std::iota(ranks.begin(), ranks.end(), 0);
  run_ranks(sum.members, [&](Transport& transport) {
    set_compute_threads(1);
    const int member = transport.rank();
    const DevicePtr device = cpu_device();
    Tensor x = from_host(input(member), {parameters.numel()}, device);
    BufferCodec codec(parameters, spec, RandomKey(5, text("member ", member)), device);
    CollectiveRun run(all_reduce(sum.how, member, sum.members), x, ranks, 1, 4 * sum.piece,
                      {&codec, 1});
    finish(run, transport, 60);
    result.values[member] = values_of(x);
    result.bytes_sent[member] = run.bytes_sent();
  });
  return result;
}

/// Every reduction, also by hosts where that matters; hosts have members that are not neighbours.
inline std::vector<Summing> summings(int members) {
  std::vector<int> hosts;
  for (int member = 0; member < members; ++member) hosts.push_back(member % 2);
  std::vector<Summing> all;
  for (const auto& [name, how] : reductions()) {
    all.push_back({how});
    if (entry_of(how).by_hosts) all.push_back({how, hosts});
  }
  return all;
}

inline std::string name_of(const Summing& how) {
  return name_of(how.how) + (how.hosts.empty() ? "" : " by hosts");
}

}  // namespace plangrad::tests
