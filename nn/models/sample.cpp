// Draws by inverting the running sum of probabilities; top-k selects without sorting.
// Chapter 02.
#include "nn/models/sample.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "autograd/error.h"

namespace plangrad::nn {

namespace {

/// The `count` likeliest tokens, in no order; ties go to lower numbers.
std::vector<std::size_t> likeliest(const std::vector<double>& logits, std::size_t count) {
  std::vector<std::size_t> tokens(logits.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  auto before = [&](std::size_t a, std::size_t b) {
    return logits[a] > logits[b] || (logits[a] == logits[b] && a < b);
  };
  auto end = tokens.begin() + static_cast<std::ptrdiff_t>(count);
  if (end != tokens.end()) std::nth_element(tokens.begin(), end, tokens.end(), before);
  tokens.erase(end, tokens.end());
  return tokens;
}

}  // namespace

std::int32_t sample_token(const std::vector<double>& logits, const SampleSettings& settings,
                          autograd::RandomKey key, std::uint64_t index) {
  PG_CHECK(settings.temperature >= 0, "the temperature must not be negative, got ",
           settings.temperature);
  PG_CHECK(settings.top_k >= 0, "top-k must not be negative, got ", settings.top_k);
  PG_CHECK(!logits.empty(), "there are no logits to choose from");
  for (double logit : logits)
    PG_CHECK(std::isfinite(logit), "a logit is ", logit, "; was the model's training loss finite?");
  auto best = std::max_element(logits.begin(), logits.end());
  if (settings.temperature == 0) return static_cast<std::int32_t>(best - logits.begin());

  std::size_t count = static_cast<std::size_t>(settings.top_k);
  if (count == 0) count = logits.size();
  std::vector<std::size_t> tokens = likeliest(logits, std::min(count, logits.size()));
  // [snippet draw]
  std::vector<double> sums;  // of the probabilities, up to a factor
  double sum = 0;
  for (std::size_t token : tokens)
    sums.push_back(sum += std::exp((logits[token] - *best) / settings.temperature));
  // Choose the first token whose sum exceeds the random number.
  double point = autograd::uniform(key, index) * sum;
  auto chosen = std::upper_bound(sums.begin(), sums.end(), point);
  return static_cast<std::int32_t>(tokens[static_cast<std::size_t>(chosen - sums.begin())]);
  // [end snippet]
}

}  // namespace plangrad::nn
