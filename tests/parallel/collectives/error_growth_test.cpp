// How far an encoded sum is from the exact one as members are added: by a ring, where each encodes
// again what the others have encoded, and by scatter-reduce-allgather.
// Not here: single sums (codec_oracle_test). Chapter 10; Markov et al. 2022.
#include "tests/catch.h"
#include "tests/parallel/support/coded_sums.h"

using namespace plangrad::tests;

namespace {

/// Mean square of the error, over the sum's variance.
double error_of(AllReduce how, int members) {
  ParameterList list;
  list.add("matrix", {160, 128}, Init::constant(0));
  std::vector<double> exact(list.numel());
  std::vector<std::vector<float>> inputs(members);
  for (int member = 0; member < members; ++member)
    for (std::int64_t i = 0; i < list.numel(); ++i) {
      inputs[member].push_back(normal(RandomKey(member, "noise"), i));
      exact[i] += inputs[member].back();
    }
  const CodedResult result = coded_sum({{how}, members}, list, parse_codec("quantize:4:512"),
                                       [&](int member) { return inputs[member]; });
  double squares = 0;
  for (std::int64_t i = 0; i < list.numel(); ++i) {
    const double error = result.values[0][i] - exact[i];
    squares += error * error;
  }
  return squares / static_cast<double>(list.numel()) / members;
}

}  // namespace

/// With u^2 the variance of one encoding's error over that of what is encoded, the sum of k members
/// has k u^2. Ring: members 1, 1-2, ..., 1-W are encoded, so (1 + 2 + ... + W) / W u^2 in all.
/// Scatter: W - 1 single ones and the sum, (2 W - 1) / W u^2.
TEST_CASE("encoded sums: a ring's error grows with its members, scatter's hardly", "[codec]") {
  std::map<int, double> ring, scatter;
  for (int members : {2, 4, 8}) {
    ring[members] = error_of(AllReduce::ring, members);
    scatter[members] = error_of(AllReduce::scatter_reduce, members);
  }
  auto is_about = [](double value, double expected) {
    CHECK(value > 0.9 * expected);
    CHECK(value < 1.1 * expected);
  };
  is_about(ring[4] / ring[2], 2.5 / 1.5);
  is_about(ring[8] / ring[2], 4.5 / 1.5);
  is_about(scatter[2] / ring[2], 1);
  is_about(scatter[4] / scatter[2], 1.75 / 1.5);
  is_about(scatter[8] / scatter[2], 1.875 / 1.5);
  CHECK(ring[8] > 2 * scatter[8]);
}
