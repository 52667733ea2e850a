// The choice of bits against brute force, its guarantees, and cases whose answers are known.
#include "parallel/codecs/bit_choice.h"

#include <limits>

#include "autograd/random.h"
#include "tests/catch.h"

using namespace plangrad::parallel;
using plangrad::autograd::RandomKey;
using plangrad::autograd::uniform;

namespace {

using Layers = std::vector<std::vector<BitOption>>;
using Choice = std::vector<std::size_t>;

struct Sum {
  std::int64_t bytes = 0, steps = 0;
  double error = 0;
};

/// With each error rounded up to steps of `step`.
Sum sum(const Layers& layers, const Choice& choice, double step = INFINITY) {
  Sum sum;
  for (std::size_t l = 0; l < layers.size(); ++l) {
    const BitOption& option = layers[l][choice[l]];
    sum.bytes += option.bytes;
    sum.error += option.error;
    sum.steps += option.error > 0 ? static_cast<std::int64_t>(std::ceil(option.error / step)) : 0;
  }
  return sum;
}

Sum uniform_sum(const Layers& layers, std::size_t option = 3) {
  return sum(layers, Choice(layers.size(), option));
}

/// The fewest bytes of all choices within `steps`; -1 if there are none.
std::int64_t brute_force(const Layers& layers, double step, int steps) {
  std::int64_t fewest = -1;
  Choice choice(layers.size(), 0);
  for (std::size_t place = 0; place < layers.size();) {
    Sum here = sum(layers, choice, step);
    if (here.steps <= steps && (fewest < 0 || here.bytes < fewest)) fewest = here.bytes;
    for (place = 0; place < layers.size() && ++choice[place] == layers[place].size(); ++place)
      choice[place] = 0;
  }
  return fewest;
}

/// What quantizing a layer of n values to 1 to 8 bits costs, and its error, which falls to about a
/// quarter with each bit.
std::vector<BitOption> layer(std::int64_t n, double scale) {
  std::vector<BitOption> options;
  for (int bits = 1; bits <= 8; ++bits)
    options.push_back({n * bits / 8 + 8, scale * n / std::pow((1 << bits) - 1, 2)});
  return options;
}

/// Sizes and errors in no order at all.
Layers random_layers(int count, int options, int seed) {
  RandomKey key(seed, "bit choice");
  Layers layers(count);
  for (int l = 0; l < count; ++l)
    for (int o = 0; o < options; ++o)
      layers[l].push_back(
          {1 + static_cast<std::int64_t>(1000 * uniform(key, 2 * (l * options + o))),
           uniform(key, 2 * (l * options + o) + 1)});
  return layers;
}

}  // namespace

TEST_CASE("bit choice: equals brute force", "[bit_choice]") {
  int from_knapsack = 0;
  for (int seed = 0; seed < 60; ++seed)
    for (int steps : {7, 64, 10000}) {
      Layers layers = random_layers(1 + seed % 5, 5, seed);
      double allowed = uniform_sum(layers).error;
      std::int64_t fewest = brute_force(layers, allowed / steps, steps);
      Sum got = sum(layers, choose_bits(layers, steps));
      if (fewest >= 0 && uniform_sum(layers).bytes >= fewest) {
        CHECK(got.bytes == fewest);
        ++from_knapsack;
      } else {
        CHECK(got.bytes == uniform_sum(layers).bytes);
      }
      CHECK(got.error <= allowed * (1 + 1e-14));
    }
  CHECK(from_knapsack > 140);
}

TEST_CASE("bit choice: never larger than uniform bits", "[bit_choice]") {
  // So coarse that rounding up forbids 4 bits everywhere to the knapsack.
  for (int steps : {1, 3, 10, 10000})
    for (int count : {1, 2, 9, 40}) {
      Layers layers;
      for (int l = 0; l < count; ++l) layers.push_back(layer(1024 + 100 * l, 1 + l % 3));
      Sum got = sum(layers, choose_bits(layers, steps));
      CHECK(got.bytes <= uniform_sum(layers).bytes);
      CHECK(got.error <= uniform_sum(layers).error * (1 + 1e-14));
    }
}

TEST_CASE("bit choice: one layer, and none", "[bit_choice]") {
  CHECK(choose_bits({}).empty());
  CHECK(choose_bits({layer(4096, 1)}) == Choice{3});
}

TEST_CASE("bit choice: gains where layers differ in error per byte", "[bit_choice]") {
  // An embedding of which few rows are used, beside small layers that carry the error.
  Layers layers{layer(1 << 20, 1e-4)};
  for (int l = 0; l < 8; ++l) layers.push_back(layer(1 << 12, 10));
  Choice choice = choose_bits(layers);
  CHECK(choice[0] == 0);
  CHECK(choice[1] >= 3);
  CHECK(uniform_sum(layers).bytes > 3 * sum(layers, choice).bytes);
  CHECK(sum(layers, choice).error <= uniform_sum(layers).error);
}

TEST_CASE("bit choice: of equally small answers the most exact, always the same", "[bit_choice]") {
  Layers layers{{{10, 5}, {10, 1}, {10, 3}, {10, 5}}, {{7, 2}, {7, 2}, {9, 0}, {7, 2}}};
  CHECK(choose_bits(layers, 70) == Choice{1, 0});
  Layers many = random_layers(30, 8, 1);
  CHECK(choose_bits(many) == choose_bits(many));
}

TEST_CASE("bit choice: errors of zero, and errors that are not known", "[bit_choice]") {
  const double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
  std::vector<BitOption> constant = layer(2048, 0), unknown = layer(2048, 1);
  CHECK(choose_bits({constant, constant}) == Choice{0, 0});
  CHECK(choose_bits({layer(4096, 1), constant}) == Choice{3, 0});
  for (double error : {nan, infinity}) {
    unknown[7].error = error;
    CHECK(choose_bits({unknown, layer(4096, 1), unknown}) == Choice{3, 3, 3});
    CHECK(choose_bits({unknown}) == Choice{3});
  }
  // Errors whose steps are denormal, and huge ones.
  for (double scale : {1e-320, 1e-300, 1e300}) {
    Layers layers{layer(1024, scale), layer(1 << 16, scale)};
    CHECK(sum(layers, choose_bits(layers)).error <= uniform_sum(layers).error * (1 + 1e-14));
  }
}

TEST_CASE("bit choice: a hundred layers", "[bit_choice]") {
  Layers layers;
  RandomKey key(3, "hundred");
  for (int l = 0; l < 100; ++l)
    layers.push_back(layer(1024 << (l % 9), std::exp(8 * uniform(key, l))));
  Sum got = sum(layers, choose_bits(layers)), equal = uniform_sum(layers);
  CHECK(got.error <= equal.error);
  CHECK(got.bytes < 0.9 * equal.bytes);
}
