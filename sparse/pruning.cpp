// Every method is a choice of keys and of how many of the greatest stay.
// Chapter 11.
#include "sparse/pruning.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "autograd/magnitude.h"
#include "autograd/random.h"

namespace paragrad::sparse {

namespace {

using Key = MagnitudeKey;

/// Elements with keys of `least` or more.
std::int64_t count_from(const std::vector<Candidate>& candidates, Key least) {
  std::int64_t count = 0;
  for (const Candidate& candidate : candidates)
    count += std::count_if(candidate.keys.begin(), candidate.keys.end(),
                           [least](Key key) { return key >= least; });
  return count;
}

/// Those with keys above `threshold`, and the first `ties` of those that have it.
Index above(const std::vector<Key>& keys, Key threshold, std::int64_t ties) {
  Index index;
  for (std::size_t i = 0; i < keys.size(); ++i)
    if (keys[i] > threshold || (keys[i] == threshold && ties-- > 0))
      index.push_back(static_cast<std::int32_t>(i));
  return index;
}

}  // namespace

std::vector<Key> magnitude_keys(const std::string& name, std::span<const double> values,
                                const Index* kept) {
  std::vector<Key> keys;
  keys.reserve(values.size());
  for (double value : values) {
    PG_CHECK(std::isfinite(value), "pruning: ", name, " holds ", value, ", whose magnitude says ",
             "nothing; use a lower --learning-rate or a longer --warmup");
    // 0 is for what was pruned before.
    keys.push_back(key_of(static_cast<float>(value)) + 1);
  }
  if (!kept) return keys;
  std::vector<Key> masked(keys.size(), 0);
  for (std::int32_t i : *kept) masked.at(i) = keys[i];
  return masked;
}

std::vector<Key> random_keys(const std::string& name, std::int64_t count, std::uint64_t seed) {
  const RandomKey sequence(seed, "prune " + name);
  std::vector<Key> keys(count);
  for (std::int64_t i = 0; i < count; ++i) keys[i] = random_bits(sequence, i);
  return keys;
}

Index greatest(const std::vector<Key>& keys, std::int64_t count) {
  if (count == 0) return {};
  std::vector<Key> sorted = keys;
  const auto at = sorted.begin() + (count - 1);
  std::nth_element(sorted.begin(), at, sorted.end(), std::greater<>());
  const Key threshold = *at;
  const auto more = std::count_if(keys.begin(), keys.end(), [=](Key k) { return k > threshold; });
  return above(keys, threshold, count - more);
}

Masks prune_each(const std::vector<Candidate>& candidates, double pruned) {
  Masks masks;
  for (const Candidate& candidate : candidates)
    masks[candidate.name] = greatest(
        candidate.keys, kept_count(static_cast<std::int64_t>(candidate.keys.size()), pruned));
  return masks;
}

// [snippet prune_all]
/// Ranks agree on the key of the last element that stays, bit by bit from the highest: a bit is set
/// if enough elements have keys that are as great. Those with just this key stay in the order of
/// the whole model.
Masks prune_all(const std::vector<Candidate>& candidates, std::size_t places, double pruned,
                const SumCounts& sum) {
  auto everywhere = [&](Key least) { return sum({count_from(candidates, least)})[0]; };
  const std::int64_t kept = kept_count(everywhere(0), pruned);
  Key threshold = 0;
  for (Key bit = Key{1} << 31; bit > 0; bit >>= 1)
    if (everywhere(threshold | bit) >= std::max<std::int64_t>(kept, 1)) threshold |= bit;

  std::vector<std::int64_t> counts(places + 1, 0);  // with this key, by place; with greater ones
  for (const Candidate& candidate : candidates)
    for (Key key : candidate.keys) {
      counts[candidate.place] += key == threshold;
      counts[places] += key > threshold;
    }
  counts = sum(counts);
  Masks masks;
  for (const Candidate& candidate : candidates) {
    std::int64_t ties = kept - counts[places];
    for (std::size_t before = 0; before < candidate.place; ++before) ties -= counts[before];
    masks[candidate.name] = above(candidate.keys, threshold, ties);
  }
  return masks;
}
// [end snippet]

double gradual_fraction(double pruned, int step, int first, int last) {
  if (step >= last) return pruned;
  if (step <= first) return 0;
  const double left = 1 - static_cast<double>(step - first) / (last - first);
  return pruned * (1 - left * left * left);
}

double lottery_fraction(double pruned, int round, int rounds) {
  return round >= rounds ? pruned : 1 - std::pow(1 - pruned, static_cast<double>(round) / rounds);
}

double EarlyBird::distance(const Masks& newest, std::int64_t elements, const SumCounts& sum) {
  std::vector<std::int64_t> counts(window + 1, 0);  // differing elements by mask; all of them
  for (std::size_t i = 0; i < last_.size(); ++i)
    for (const auto& [name, index] : newest) counts[i] += differences(index, last_[i].at(name));
  counts[window] = elements;
  counts = sum(counts);
  const bool full = static_cast<int>(last_.size()) == window;
  last_.push_back(newest);
  if (last_.size() > window) last_.pop_front();
  if (!full) return std::numeric_limits<double>::infinity();
  const std::int64_t most = *std::max_element(counts.begin(), counts.end() - 1);
  return static_cast<double>(most) / static_cast<double>(counts[window]);
}

}  // namespace paragrad::sparse
