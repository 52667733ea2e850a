// Sums that travel encoded, over threads: half a unit off the paper's oracle at most, the same bits
// on all members, and the bytes of the formula.
// Not here: the codecs alone (codec_test), plans (codec_engine_test).
// Chapter 10; Markov et al. 2022.

#include "parallel/codecs/codec.h"
#include "tests/catch.h"
#include "tests/parallel/support/coded_sums.h"
#include "tests/parallel/support/promised_sum.h"

using namespace plangrad::tests;

namespace {

/// Two matrices that are encoded, and others that are not: a bias between them, and a small matrix.
ParameterList layers(std::int64_t rows = 50) {
  ParameterList list;
  list.add("first", {rows, 101}, Init::constant(0));
  list.add("bias", {101}, Init::constant(0));
  list.add("second", {33, 40}, Init::constant(0));
  list.add("small", {8, 100}, Init::constant(0));
  return list;
}

/// Calls visit(parameter, first element, last element + 1) for each that is encoded, or is not.
template <class Visit>
void for_each_layer(const ParameterList& list, bool encoded, Visit visit) {
  for (const Parameter& p : list)
    if (is_encoded(p) == encoded) visit(p, p.offset, p.offset + p.shape.numel());
}

/// (member + 1) * arange in each layer that is encoded; elsewhere numbers whose sum's last bits
/// show the order of adding.
std::vector<float> oracle_input(const ParameterList& list, int member) {
  std::vector<float> values(list.numel());
  for (std::int64_t i = 0; i < list.numel(); ++i)
    values[i] = std::ldexp(uniform(RandomKey(member, "order"), i) - 0.5f, static_cast<int>(i % 20));
  for_each_layer(list, true, [&](const Parameter&, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      values[i] = static_cast<float>((member + 1) * (i - begin));
  });
  return values;
}

CodecSpec quantize(int bits, int bucket) {
  return {.name = "quantize", .bits = bits, .bucket = bucket};
}

/// The most elements that a bucket has of an encoded layer.
std::int64_t largest_bucket(const CodedSum& how, const ParameterList& list, int bucket) {
  std::int64_t largest = 0;
  for (const Piece& piece : cut(all_reduce(how.how, 0, how.members), list.numel(), how.piece))
    for_each_layer(list, true, [&](const Parameter&, std::int64_t begin, std::int64_t end) {
      const std::int64_t common =
          std::min(end, piece.range.end) - std::max(begin, piece.range.begin);
      largest = std::max(largest, std::min<std::int64_t>(bucket, common));
    });
  return largest;
}

/// The paper's bound: max|error| <= 2 min(bucket, n) / (2^b - 1) W (W + 1).
/// A tight one: members' values are multiples of the same numbers, so they have the same levels in
/// a bucket of m elements; sums of decoded values lie on levels of the sum, whatever is added
/// first, and encoding them again adds nothing. What remains is half a unit of the whole sum,
///   W (W + 1) / 4 (m - 1) / (2^b - 1)
/// and the codec's own rounding and that of additions in f32.
void check_errors(const std::vector<float>& sum, const ParameterList& list, const CodecSpec& spec,
                  const CodedSum& how) {
  const int members = how.members;
  const double steps = (1 << spec.bits) - 1, whole = members * (members + 1) / 2.0;
  const auto m = static_cast<double>(largest_bucket(how, list, spec.bucket));
  CHECK(m == spec.bucket);
  for_each_layer(list, true, [&](const Parameter& p, std::int64_t begin, std::int64_t end) {
    const double n = static_cast<double>(end - begin);
    const double rounding = members * whole * (m * 0x1p-21 + n * (0x1p-23 + 0x1p-24));
    double largest = 0;
    for (std::int64_t i = begin; i < end; ++i)
      largest = std::max(largest, std::abs(sum[i] - static_cast<double>(i - begin) * whole));
    INFO(p.name);
    CHECK(largest <= whole * (m - 1) / (2 * steps) + rounding);
    CHECK(largest <= 2 * std::min<double>(spec.bucket, n) / steps * members * (members + 1));
    CHECK(largest > 0);  // it is encoded indeed
  });
}

/// To the bit, in the order that the reduction promises.
void check_others(const std::vector<float>& sum, const ParameterList& list, const CodedSum& how,
                  const std::vector<std::vector<float>>& inputs) {
  const int chunks = all_reduce(how.how, 0, how.members).chunks;
  int wrong = 0;
  for_each_layer(list, false, [&](const Parameter&, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      int chunk = 0;
      while (chunk_range(list.numel(), chunk, chunks).end <= i) ++chunk;
      auto leaf = [&](int member) { return inputs[member][i]; };
      auto add = [](float a, float b) { return a + b; };
      wrong += sum[i] != promised_sum(how.how, how.members, chunk, leaf, add);
    }
  });
  CHECK(wrong == 0);
}

/// 2 * 4 bytes a bucket and the bits of all levels in words of 8 bytes for what a piece has of each
/// encoded layer; 4 bytes for each other element.
std::int64_t bytes_of(Range piece, const ParameterList& list, const CodecSpec& spec) {
  std::int64_t bytes = 0;
  for (bool encoded : {true, false})
    for_each_layer(list, encoded, [&](const Parameter&, std::int64_t begin, std::int64_t end) {
      const std::int64_t n = std::min(end, piece.end) - std::max(begin, piece.begin);
      if (n <= 0) return;
      const std::int64_t buckets = (n + spec.bucket - 1) / spec.bucket;
      bytes += encoded ? 8 * buckets + (n * spec.bits + 63) / 64 * 8 : 4 * n;
    });
  return bytes;
}

std::int64_t expected_bytes(const CodedSum& how, int member, const ParameterList& list,
                            const CodecSpec& spec) {
  std::int64_t bytes = 0;
  for (const Piece& piece : cut(all_reduce(how.how, member, how.members), list.numel(), how.piece))
    if (piece.action == Exchange::Action::send) bytes += bytes_of(piece.range, list, spec);
  return bytes;
}

}  // namespace

TEST_CASE("encoded sums: the oracle of CGX, in every form of reduction", "[codec]") {
  const ParameterList list = layers(180);  // a chunk of eight has more than 2048 elements of it
  for (int members : {2, 3, 4, 8}) {
    std::vector<std::vector<float>> inputs;
    for (int member = 0; member < members; ++member) inputs.push_back(oracle_input(list, member));
    for (const Summing& summing : summings(members))
      for (int bits : {1, 2, 3, 4, 5, 6, 7, 8})
        for (int bucket : {64, 512, 2048}) {
          const CodecSpec spec = quantize(bits, bucket);
          const CodedSum how{summing, members, 2500};
          INFO(name_of(summing) << " over " << members << ", " << print(spec));
          const CodedResult result =
              coded_sum(how, list, spec, [&](int member) { return inputs[member]; });
          check_errors(result.values[0], list, spec, how);
          check_others(result.values[0], list, how, inputs);
          for (int member = 0; member < members; ++member) {
            const bool same = result.values[member] == result.values[0];
            CHECK(same);
            CHECK(result.bytes_sent[member] == expected_bytes(how, member, list, spec));
          }
        }
  }
}

TEST_CASE("encoded sums: constant tensors are summed exactly", "[codec]") {
  const ParameterList list = layers();
  for (int members : {2, 3, 4, 8})
    for (const Summing& summing : summings(members))
      for (const char* codec : {"quantize:1:64", "quantize:4", "quantize:3:512:stochastic"}) {
        INFO(name_of(summing) << " over " << members << ", " << codec);
        const CodedResult result =
            coded_sum({summing, members}, list, parse_codec(codec), [&](int member) {
              return std::vector<float>(list.numel(), 0.25f * static_cast<float>(member + 1));
            });
        const std::vector<float> exact(list.numel(), 0.125f * members * (members + 1));
        for (const auto& values : result.values) {
          const bool same = values == exact;
          CHECK(same);
        }
      }
}

TEST_CASE("encoded sums: members end with the same bits by every codec", "[codec]") {
  const ParameterList list = layers();
  auto input = [&](int member) {
    std::vector<float> values(list.numel());
    for (std::int64_t i = 0; i < list.numel(); ++i)
      values[i] = uniform(RandomKey(member, "values"), i) - 0.5f;
    return values;
  };
  for (int members : {2, 3, 4, 8})
    for (const Summing& summing : summings(members)) {
      const CodedSum how{summing, members};
      const auto plain = coded_sum(how, list, parse_codec("none"), input).values[0];
      for (const char* codec : {"bf16", "quantize:4:512", "quantize:3:64:stochastic", "adaptive",
                                "topk:0.05", "threshold:0.05"}) {
        INFO(name_of(summing) << " over " << members << ", " << codec);
        const CodedResult result = coded_sum(how, list, parse_codec(codec), input);
        for (const auto& values : result.values) {
          const bool same = values == result.values[0], exact = values == plain;
          CHECK(same);
          CHECK_FALSE(exact);
        }
      }
    }
}

TEST_CASE("encoded sums: a large matrix is sent in an eighth of the bytes, nearly", "[codec]") {
  ParameterList list;
  list.add("matrix", {1024, 1024}, Init::constant(0));
  auto sent = [&](const char* codec) {
    const CodedSum how{{AllReduce::scatter_reduce}, 2, default_piece / 4};
    auto input = [&](int) { return std::vector<float>(list.numel(), 1); };
    return static_cast<double>(coded_sum(how, list, parse_codec(codec), input).bytes_sent[0]);
  };
  CHECK(std::abs(sent("none") / sent("quantize:4:1024") - 7.88) < 0.005);
}

TEST_CASE("encoded sums: large messages bring the bits of small ones", "[codec]") {
  const ParameterList list = layers(5000);
  auto input = [&](int member) { return oracle_input(list, member); };
  for (const char* codec : {"quantize:3:64:stochastic", "topk:0.05", "threshold:0.05"}) {
    auto sum = [&](std::int64_t piece) {
      return coded_sum({{AllReduce::ring}, 2, piece}, list, parse_codec(codec), input).values;
    };
    const bool same = sum(default_piece / 4) == sum(default_piece);  // four encoded ones in each
    CHECK(same);
  }
}
