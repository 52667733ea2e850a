// A method chooses a key for each element, and the number of elements with the greatest keys that
// stay. Prunable parameters are those with weight decay, the matrices, except some by name. Masks
// are sent packed. Stores each draw in a checkpoint as the indices of its kept elements, the oldest
// draw as number 0: "draw-0/h.0.attn.c_attn.weight". Chapter 11.
#include "sparse/pruning.h"

#include <iterator>

#include "autograd/formulas.h"
#include "parallel/plan/lifetimes.h"
#include "parallel/transports/launch.h"
#include "parallel/transports/pack.h"

namespace plangrad::sparse {
namespace {

using Key = MagnitudeKey;

/// The indices of the keys above `threshold`, and of the first `ties` keys equal to it.
Index above(const std::vector<Key>& keys, Key threshold, std::int64_t ties) {
  Index index;
  for (std::size_t i = 0; i < keys.size(); ++i)
    if (keys[i] > threshold || (keys[i] == threshold && ties-- > 0))
      index.push_back(static_cast<std::int32_t>(i));
  return index;
}

std::string draw_name(std::size_t draw) { return text("draw-", draw); }

/// The parameters of `list` that a draw has, with the offsets of its concatenated indices.
ParameterList drawn_list(const ParameterList& list, const Masks& draw) {
  ParameterList drawn;
  for (const Parameter& p : list)
    if (const auto mask = draw.find(p.name); mask != draw.end())
      drawn.add(p.name, {static_cast<std::int64_t>(mask->second.size())}, Init::constant(0));
  return drawn;
}

Tensor on_device(const ParameterList& drawn, const Masks& draw, const DevicePtr& device) {
  Index all;
  for (const Parameter& p : drawn)
    all.insert(all.end(), draw.at(p.name).begin(), draw.at(p.name).end());
  CategoryScope category(*device, Category::workspace);
  return from_host(all, {drawn.numel()}, device);
}

}  // namespace

void check_index(const Parameter& parameter, const Index& index) {
  const std::int64_t count = parameter.shape.numel();
  PG_CHECK(count <= std::numeric_limits<std::int32_t>::max(), "pruning: ", parameter.name, " has ",
           count, " elements, more than an index of 32 bits can count");
  const bool ascends =
      std::adjacent_find(index.begin(), index.end(), std::greater_equal<>()) == index.end();
  PG_CHECK(ascends && (index.empty() || (index.front() >= 0 && index.back() < count)),
           "pruning: the kept elements of ", parameter.name, " must ascend from 0 on and be below ",
           count, "; the mask is damaged or belongs to another model");
}

std::vector<Key> magnitude_keys(const std::string& name, std::span<const double> values,
                                const Index* kept) {
  std::vector<Key> keys;
  keys.reserve(values.size());
  for (double value : values) {
    PG_CHECK(std::isfinite(value), "pruning: ", name, " holds ", value, ", which has no magnitude ",
             "to compare; use a lower --learning-rate or a longer --warmup");
    // Key 0 is reserved for elements that are pruned already.
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
  const auto more = std::ranges::count_if(keys, [=](Key key) { return key > threshold; });
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
/// if enough elements have keys at least as great. Elements with exactly this key stay in the order
/// of the whole model.
Masks prune_all(const std::vector<Candidate>& candidates, std::size_t places, double pruned,
                const SumCounts& sum) {
  auto everywhere = [&](Key least) {  // counts elements of all ranks with keys of at least `least`
    std::int64_t count = 0;
    for (const Candidate& candidate : candidates)
      count += std::ranges::count_if(candidate.keys, [=](Key key) { return key >= least; });
    return sum({count})[0];
  };
  const std::int64_t kept = kept_count(everywhere(0), pruned);
  Key threshold = 0;
  for (Key bit = Key{1} << 31; bit > 0; bit >>= 1)
    if (everywhere(threshold | bit) >= std::max<std::int64_t>(kept, 1)) threshold |= bit;

  std::vector<std::int64_t> counts(places + 1, 0);  // by place: this key; last: all greater keys
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
  std::vector<std::int64_t> counts(window + 1, 0);  // by mask: elements that differ; last: all
  for (std::size_t i = 0; i < draws.size(); ++i)
    for (const auto& [name, index] : newest) {
      Index apart;  // elements that only one of the two masks keeps
      std::ranges::set_symmetric_difference(index, draws[i].at(name), std::back_inserter(apart));
      counts[i] += static_cast<std::int64_t>(apart.size());
    }
  counts[window] = elements;
  counts = sum(counts);
  const bool full = static_cast<int>(draws.size()) == window;
  draws.push_back(newest);
  if (draws.size() > window) draws.pop_front();
  if (!full) return std::numeric_limits<double>::infinity();
  const std::int64_t most = *std::max_element(counts.begin(), counts.end() - 1);
  return static_cast<double>(most) / static_cast<double>(counts[window]);
}

SumCounts sum_over(Transport& transport, double timeout) {
  return [&transport, timeout](const std::vector<std::int64_t>& own) {
    std::vector<std::int64_t> total(own.size(), 0);
    for (const std::string& one : all_gather_bytes(transport, pack(own), timeout)) {
      const auto counts = unpack<std::vector<std::int64_t>>(one);
      PG_CHECK(counts.size() == total.size(), "ranks count different parameters");
      std::ranges::transform(total, counts, total.begin(), std::plus<>());
    }
    return total;
  };
}

Masks all_masks(Transport& transport, const Masks& own, double timeout) {
  Masks all;
  for (const std::string& one : all_gather_bytes(transport, pack(own), timeout))
    all.merge(unpack<Masks>(one));
  return all;
}

void write_draws(Engine& engine, const Plan& plan, const std::deque<Masks>& draws,
                 const WriteFile& write_file) {
  if (draws.empty()) return;
  const auto ranks = holders(plan);
  AtWork saving(engine.transport(), Work::saving);
  for (auto& [stage, store] : engine.stores()) {
    const ParameterList drawn = drawn_list(store.form().parameters(), draws.front());
    if (ranks.at(stage).front() != engine.transport().rank() || drawn.size() == 0) continue;
    FlatBuffers buffers;
    for (std::size_t i = 0; i < draws.size(); ++i)
      buffers.emplace_back(draw_name(i), on_device(drawn, draws[i], engine.device()));
    write_file(text("draws_", stage), drawn, buffers);
  }
}

std::deque<Masks> read_draws(const Checkpoint& checkpoint, const ParameterList& whole,
                             double pruned, const DevicePtr& device) {
  std::deque<Masks> draws;
  for (std::size_t i = 0; checkpoint.has_state(draw_name(i)); ++i) {
    Masks draw;
    for (const Parameter& p : whole) {
      Parameter kept = p;
      kept.shape = {kept_count(p.shape.numel(), pruned)};
      const Tensor index = workspace(kept.shape, DType::i32, device);
      if (!checkpoint.load_state_if_any(draw_name(i), kept, index)) continue;
      const std::vector<double> numbers = to_host(index);
      draw[p.name].assign(numbers.begin(), numbers.end());
    }
    draws.push_back(draw);
  }
  return draws;
}

}  // namespace plangrad::sparse
