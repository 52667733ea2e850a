// Methods of pruning: exact counts, sorting as the reference, and masks that do not depend on how
// the model is spread over ranks.
#include "sparse/pruning.h"

#include <barrier>
#include <numeric>

#include "autograd/random.h"
#include "tests/catch.h"
#include "tests/in_threads.h"

using namespace plangrad::sparse;

namespace {

const SumCounts alone = [](const std::vector<std::int64_t>& own) { return own; };

/// Few different magnitudes, so that many are equal.
std::vector<double> values_of(const std::string& name, int count) {
  std::vector<double> values(count);
  for (int i = 0; i < count; ++i)
    values[i] = static_cast<double>(uniform_integer(RandomKey(3, name), i, 41)) / 8 - 2.5;
  return values;
}

/// Layers of a model; their sizes divide by nothing.
std::vector<Candidate> model() {
  std::vector<Candidate> candidates;
  for (int size : {97, 1, 250, 33, 1001}) {
    const std::string name = "layer" + std::to_string(candidates.size());
    candidates.push_back({name, candidates.size(), magnitude_keys(name, values_of(name, size))});
  }
  return candidates;
}

/// (place, index) of all elements, the greatest first, of equal ones in the model's order.
std::vector<std::pair<std::size_t, std::int32_t>> sorted(const std::vector<Candidate>& all) {
  std::vector<std::pair<std::size_t, std::int32_t>> elements;
  for (const Candidate& c : all)
    for (std::size_t i = 0; i < c.keys.size(); ++i)
      elements.emplace_back(c.place, static_cast<std::int32_t>(i));
  std::stable_sort(elements.begin(), elements.end(), [&](const auto& a, const auto& b) {
    return all[a.first].keys[a.second] > all[b.first].keys[b.second];
  });
  return elements;
}

Masks first_of(const std::vector<Candidate>& all, std::int64_t count) {
  Masks masks;
  for (const Candidate& c : all) masks[c.name];
  const auto elements = sorted(all);
  for (std::int64_t i = 0; i < count; ++i)
    masks[all[elements[i].first].name].push_back(elements[i].second);
  for (auto& [name, index] : masks) std::sort(index.begin(), index.end());
  return masks;
}

}  // namespace

TEST_CASE("kept counts are the nearest whole numbers") {
  CHECK(kept_count(1000, 0.9) == 100);
  CHECK(kept_count(1001, 0.5) == 501);
  CHECK(kept_count(7, 0) == 7);
  CHECK(kept_count(3, 0.95) == 1);
  CHECK(kept_count(0, 0.5) == 0);
  CHECK_THROWS_WITH(kept_count(3, 1), Contains("from 0 to below 1, got 1"));
  CHECK_THROWS_WITH(kept_count(3, -0.1), Contains("got -0.1"));
}

TEST_CASE("matrices and kernels are pruned, the rest if it is asked for, statistics never") {
  ParameterList list;
  auto prunable = [&](const char* name, const Shape& shape, bool all,
                      ParameterKind kind = ParameterKind::weight) {
    return is_prunable(list.add(name, shape, Init::constant(0), kind), all);
  };
  CHECK(prunable("h.0.attn.c_attn.weight", {4, 4}, false));
  CHECK(prunable("conv1.weight", {4, 2, 3, 3}, false));
  CHECK(prunable("lm_head.weight", {9, 4}, false));
  for (const char* name : {"wte.weight", "wpe.weight"}) {
    CHECK_FALSE(prunable(name, {9, 4}, false));
    CHECK(prunable(name, {9, 4}, true));
  }
  CHECK_FALSE(prunable("ln_f.bias", {4}, false));
  CHECK(prunable("ln_f.bias", {4}, true));
  CHECK_FALSE(prunable("bn1.running_mean", {4}, true, ParameterKind::statistic));
}

TEST_CASE("keys are ordered as magnitudes are") {
  const std::vector<double> values{-3, 0, 2.5, -0.0, 1e-40, 3, -1e30};
  const auto keys = magnitude_keys("x", values);
  for (std::size_t i = 0; i < values.size(); ++i)
    for (std::size_t j = 0; j < values.size(); ++j)
      CHECK((keys[i] < keys[j]) == (std::abs(values[i]) < std::abs(values[j])));
  for (double bad : {std::nan(""), std::numeric_limits<double>::infinity()})
    CHECK_THROWS_WITH(magnitude_keys("h.0.w", std::vector<double>{1, bad}),
                      Contains("pruning: h.0.w holds"));
}

TEST_CASE("what was pruned before stays pruned, also beside kept zeros") {
  const std::vector<double> values{0, 5, 0, 0, 1};
  const Index kept{1, 3, 4};
  const auto keys = magnitude_keys("x", values, &kept);
  CHECK(greatest(keys, 3) == kept);
  CHECK(greatest(keys, 2) == Index{1, 4});
}

TEST_CASE("each layer keeps its share: its greatest elements, of equal ones the first") {
  const std::vector<Candidate> all = model();
  for (double pruned : {0.0, 0.25, 0.5, 0.8, 0.9, 0.95}) {
    const Masks masks = prune_each(all, pruned);
    for (const Candidate& c : all) {
      Candidate alone_there = c;
      alone_there.place = 0;
      const std::int64_t count = kept_count(static_cast<std::int64_t>(c.keys.size()), pruned);
      CHECK(static_cast<std::int64_t>(masks.at(c.name).size()) == count);
      CHECK(masks.at(c.name) == first_of({alone_there}, count).at(c.name));
    }
  }
}

TEST_CASE("all layers together keep the greatest elements, however they are spread over ranks") {
  const std::vector<Candidate> all = model();
  std::int64_t elements = 0;
  for (const Candidate& c : all) elements += static_cast<std::int64_t>(c.keys.size());
  for (double pruned : {0.0, 0.5, 0.9, 0.95, 0.9999}) {
    const Masks expected = first_of(all, kept_count(elements, pruned));
    CHECK(prune_all(all, all.size(), pruned, alone) == expected);
    for (int ranks : {2, 3, 7}) {
      std::vector<Masks> parts(ranks);
      std::vector<std::vector<std::int64_t>> counts(ranks);
      std::barrier together(ranks);
      plangrad::tests::in_threads(ranks, [&](int rank) {
        const SumCounts sum = [&](const std::vector<std::int64_t>& own) {
          counts[rank] = own;
          together.arrive_and_wait();
          std::vector<std::int64_t> total(own.size(), 0);
          for (const auto& one : counts)
            for (std::size_t i = 0; i < total.size(); ++i) total[i] += one[i];
          together.arrive_and_wait();
          return total;
        };
        std::vector<Candidate> own;
        for (const Candidate& c : all)
          if (static_cast<int>(c.place) % ranks == rank) own.push_back(c);
        parts[rank] = prune_all(own, all.size(), pruned, sum);
      });
      Masks whole;
      for (Masks& part : parts) whole.merge(part);
      CHECK(whole == expected);
    }
  }
}

TEST_CASE("random masks depend on seed and name alone, and are spread evenly") {
  const int count = 10000, parts = 10;
  const Index index = greatest(random_keys("a", count, 1), count / 2);
  CHECK(index == greatest(random_keys("a", count, 1), count / 2));
  CHECK(index != greatest(random_keys("b", count, 1), count / 2));
  CHECK(index != greatest(random_keys("a", count, 2), count / 2));
  // Of the 1000 elements of a part, half are kept; the deviation is sqrt(250) at most.
  std::vector<int> kept(parts, 0);
  for (std::int32_t i : index) ++kept[i / (count / parts)];
  for (int here : kept) CHECK(std::abs(here - 500) < 5 * std::sqrt(250));
}

TEST_CASE("gradual pruning climbs along a cubic, lottery tickets by equal shares") {
  CHECK(gradual_fraction(0.9, 10, 10, 50) == 0);
  CHECK(gradual_fraction(0.9, 50, 10, 50) == 0.9);
  CHECK(gradual_fraction(0.9, 99, 10, 50) == 0.9);
  CHECK(gradual_fraction(0.8, 30, 10, 50) == Approx(0.8 * 7 / 8));
  for (int step = 10; step < 50; ++step)
    CHECK(gradual_fraction(0.9, step, 10, 50) < gradual_fraction(0.9, step + 1, 10, 50));
  CHECK(lottery_fraction(0.9, 0, 3) == 0);
  CHECK(lottery_fraction(0.9, 3, 3) == 0.9);
  const double left1 = 1 - lottery_fraction(0.9, 1, 3), left2 = 1 - lottery_fraction(0.9, 2, 3);
  CHECK(left1 * left1 == Approx(left2));
  CHECK(left1 * left2 == Approx(0.1));
}

TEST_CASE("an early bird is a mask that differs little from each of the five before") {
  auto mask = [](std::int32_t first) {
    Index index(100);
    std::iota(index.begin(), index.end(), first);
    return Masks{{"x", index}};
  };
  EarlyBird bird;
  // Shifted by k, two masks differ in 2 k of the 1000 elements.
  for (int draw = 0; draw < EarlyBird::window; ++draw)
    CHECK(std::isinf(bird.distance(mask(60 * draw), 1000, alone)));
  CHECK(bird.distance(mask(300), 1000, alone) == 0.2);  // nothing in common with the first
  CHECK(bird.distance(mask(300), 1000, alone) == 0.2);
  CHECK(bird.distance(mask(300), 1000, alone) == 0.2);
  CHECK(bird.distance(mask(270), 1000, alone) == Approx(0.18));  // the oldest is mask(180)
  CHECK(bird.distance(mask(290), 1000, alone) == Approx(0.1));   // the oldest is mask(240)
}

TEST_CASE("a mask that is none is refused") {
  ParameterList list;
  const Parameter& x = list.add("x", {2, 3}, Init::constant(0));
  CHECK_NOTHROW(check_index(x, {}));
  CHECK_NOTHROW(check_index(x, {0, 5}));
  for (const Index& index : {Index{0, 6}, Index{-1, 2}, Index{2, 1}, Index{1, 1}})
    CHECK_THROWS_WITH(check_index(x, index), Contains("the kept elements of x"));
}
