// adaptive: quantize, with bits for each layer from a knapsack. The errors are the weights, counted
// in steps, and dynamic programming over the layers knows the fewest bytes for every number of
// steps that is spent.
#include "parallel/codecs/bit_choice.h"

#include <iterator>
#include <limits>

namespace plangrad::parallel {
namespace {

using Layer = std::vector<BitOption>;
using Choice = std::vector<std::size_t>;

/// The index of the option that layers would share: 4 bits of 1 to 8.
constexpr std::size_t uniform_option = 3;

/// More bytes than any choice has; adding one more layer does not overflow.
constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max() / 2;

bool is_measured(const Layer& layer) {
  return std::all_of(layer.begin(), layer.end(),
                     [](const BitOption& option) { return std::isfinite(option.error); });
}

struct Total {
  std::int64_t bytes = 0;
  double error = 0;
};

Total total(const std::vector<Layer>& layers, const Choice& choice) {
  Total sum;
  for (std::size_t l = 0; l < layers.size(); ++l) {
    sum.bytes += layers[l][choice[l]].bytes;
    sum.error += layers[l][choice[l]].error;
  }
  return sum;
}

/// An error in steps, rounded up, never less than the true one; above `steps` if it is not allowed.
int in_steps(double error, double allowed, int steps) {
  if (error > allowed) return steps + 1;
  return error == 0 ? 0 : static_cast<int>(std::ceil(error / allowed * steps));
}

// [snippet knapsack]
/// The smallest choice within `steps`; empty if there is none.
Choice knapsack(const std::vector<Layer>& layers, double allowed, int steps) {
  // bytes[t]: fewest bytes of the layers so far in t steps; chosen[l][t]: the option of layer l.
  std::vector<std::int64_t> bytes(steps + 1, never);
  std::vector<std::vector<std::uint8_t>> chosen;
  bytes[0] = 0;
  for (const Layer& layer : layers) {
    std::vector<std::int64_t> next(steps + 1, never);
    std::vector<std::uint8_t>& choice = chosen.emplace_back(steps + 1, 0);
    for (std::size_t option = 0; option < layer.size(); ++option) {
      int cost = in_steps(layer[option].error, allowed, steps);
      for (int t = cost; t <= steps; ++t) {
        std::int64_t sum = bytes[t - cost] + layer[option].bytes;
        if (sum < next[t]) next[t] = sum, choice[t] = static_cast<std::uint8_t>(option);
      }
    }
    bytes = std::move(next);
  }
  // Walk back from the fewest bytes, and among equal ones from the fewest steps.
  auto best = std::min_element(bytes.begin(), bytes.end());
  if (*best == never) return {};
  Choice result(layers.size());
  int left = static_cast<int>(best - bytes.begin());
  for (std::size_t l = layers.size(); l-- > 0;) {
    result[l] = chosen[l][left];
    left -= in_steps(layers[l][result[l]].error, allowed, steps);
  }
  return result;
}
// [end snippet]

}  // namespace

Choice choose_bits(const std::vector<Layer>& all, int steps) {
  std::vector<Layer> layers;
  std::copy_if(all.begin(), all.end(), std::back_inserter(layers), is_measured);

  Choice uniform(layers.size(), uniform_option);
  const Total as_uniform = total(layers, uniform);
  Choice best = knapsack(layers, as_uniform.error, steps);
  if (best.size() != layers.size() || as_uniform.bytes < total(layers, best).bytes) best = uniform;

  Choice result;
  auto next = best.begin();
  for (const Layer& layer : all) result.push_back(is_measured(layer) ? *next++ : uniform_option);
  return result;
}

/// The errors of ranks that measured the same layer, each its own gradient, added up.
static BitOptions summed(const std::vector<BitOptions>& measured) {
  BitOptions sums;
  for (const BitOptions& of_rank : measured)
    for (const auto& [layer, options] : of_rank) {
      auto [known, is_new] = sums.try_emplace(layer, options);
      for (std::size_t i = 0; !is_new && i < options.size(); ++i)
        known->second[i].error += options[i].error;
    }
  return sums;
}

/// Layers are in the order of their names, so that equal measurements give equal choices.
static Bits adaptive_bits(const std::vector<BitOptions>& measured) {
  const BitOptions sums = summed(measured);
  std::vector<Layer> layers;
  for (const auto& [layer, options] : sums) layers.push_back(options);
  const Choice chosen = choose_bits(layers);
  auto next = chosen.begin();
  Bits bits;
  for (const auto& [layer, options] : sums) bits[layer] = static_cast<int>(*next++) + 1;
  return bits;
}

// [snippet adaptive]
CodecEntry adaptive_codec() {
  return quantizer({.name = "adaptive",
                    .numbers = {bucket_number, period_number},
                    .chooses_bits = adaptive_bits});
}
// [end snippet]

}  // namespace plangrad::parallel
