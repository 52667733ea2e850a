// What adaptive codecs measure of a gradient, and what is chosen from several ranks' measurements.
// Not here: the choice as such (bit_choice_test), runs with chosen bits (codec_engine_test).
#include "parallel/codecs/message_codec.h"

#include "autograd/cpu/cpu_backend.h"
#include "tests/catch.h"
#include "tests/numbers.h"

using namespace plangrad;
using namespace plangrad::parallel;
using namespace plangrad::tests;

namespace {

constexpr int bucket = 128;

nn::ParameterList two_layers() {
  nn::ParameterList list;
  list.add("bias", {50}, nn::Init::constant(0));
  list.add("large", {64, 64}, nn::Init::constant(0));
  list.add("small", {32, 64}, nn::Init::constant(0));
  return list;
}

/// Uniform, in `large` a hundred times as large as in `small`.
std::vector<float> gradient_of(const nn::ParameterList& list, int rank) {
  std::vector<float> values(list.numel());
  for (const nn::Parameter& p : list)
    for (std::int64_t i = p.offset; i < p.offset + p.shape.numel(); ++i)
      values[i] = (uniform(RandomKey(rank, p.name), i) - 0.5f) * (p.name == "large" ? 100.f : 1.f);
  return values;
}

Tensor as_tensor(const std::vector<float>& values) {
  return floats(values, {static_cast<std::int64_t>(values.size())}, cpu_device());
}

BitOptions measured(const std::vector<float>& gradient, const nn::ParameterList& list) {
  const BufferCodec codec(list, parse_codec("adaptive:128"), {}, cpu_device());
  return codec.bit_options(as_tensor(gradient));
}

Bits bits_of(const std::vector<BitOptions>& measured) {
  return parse_codec("adaptive").kind().chooses_bits(measured);
}

/// The squared error of values that are rounded to the nearest of 2^bits levels between the least
/// and the greatest of each bucket, in f64.
double squared_error(const std::vector<float>& values, int bits) {
  double sum = 0;
  for (std::size_t first = 0; first < values.size(); first += bucket) {
    const auto begin = values.begin() + first;
    const auto end = begin + std::min<std::size_t>(bucket, values.size() - first);
    const double least = *std::min_element(begin, end), greatest = *std::max_element(begin, end);
    const double unit = (greatest - least) / ((1 << bits) - 1);
    for (auto x = begin; x != end; ++x) {
      const double level = std::floor((*x - least) / unit + 0.5);
      sum += std::pow(*x - (least + level * unit), 2);
    }
  }
  return sum;
}

}  // namespace

TEST_CASE("bit options: encoded sizes and squared errors of 1 to 8 bits", "[codec]") {
  const nn::ParameterList list = two_layers();
  const std::vector<float> gradient = gradient_of(list, 0);
  const BitOptions options = measured(gradient, list);
  CHECK(options.size() == 2);  // the bias is not encoded
  for (const nn::Parameter& p : list) {
    if (p.name == "bias") continue;
    INFO(p.name);
    const std::vector<BitOption>& layer = options.at(p.name);
    REQUIRE(layer.size() == 8);
    const auto first = gradient.begin() + p.offset;
    const std::vector<float> values(first, first + p.shape.numel());
    for (int bits = 1; bits <= 8; ++bits) {
      const auto n = p.shape.numel();
      CHECK(layer[bits - 1].bytes == n / bucket * 8 + n * bits / 8);
      // f32 differs by a share of the unit; a value between two levels may go either way.
      CHECK(layer[bits - 1].error == Approx(squared_error(values, bits)).epsilon(1e-3));
    }
  }
}

TEST_CASE("adaptive bits: more for layers with large gradients, in no more bytes than 4 bits",
          "[codec]") {
  const nn::ParameterList list = two_layers();
  const Bits bits = bits_of({measured(gradient_of(list, 0), list)});
  CHECK(bits.at("large") > bits.at("small"));
  CHECK(4096 * bits.at("large") + 2048 * bits.at("small") < 4 * (4096 + 2048));
}

TEST_CASE("adaptive bits: errors of ranks add up", "[codec]") {
  // Two bits suffice by the first rank, eight by the second; together what their sums need.
  auto options = [](double error_of_4, double at_more_bits) {
    std::vector<BitOption> layer;
    for (int bits = 1; bits <= 8; ++bits)
      layer.push_back({bits, bits < 5 ? error_of_4 * (5 - bits) : at_more_bits});
    return layer;
  };
  const BitOptions first{{"a", options(8, 0)}, {"b", options(1, 0)}};
  const BitOptions second{{"a", options(0, 0)}, {"b", options(31, 0)}};
  auto sum = first;
  for (auto& [layer, all] : sum)
    for (int i = 0; i < 8; ++i) all[i].error += second.at(layer)[i].error;
  const Bits chosen = bits_of({first, second});
  CHECK(chosen == bits_of({sum}));
  CHECK(chosen != bits_of({first}));
  CHECK(chosen.at("a") < chosen.at("b"));
}

TEST_CASE("adaptive bits: a layer that is not finite keeps 4 bits", "[codec]") {
  const nn::ParameterList list = two_layers();
  std::vector<float> gradient = gradient_of(list, 0);
  gradient[60] = NAN;  // in `large`
  CHECK(bits_of({measured(gradient, list)}) == Bits{{"large", 4}, {"small", 4}});
}
