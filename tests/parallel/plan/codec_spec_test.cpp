// Codecs as users type them: every form is read, printed, and refused where it makes no sense.
#include "parallel/plan/codec_spec.h"

#include <cmath>

#include "tests/catch.h"

using namespace plangrad::parallel;

TEST_CASE("codec spec: what users type is read", "[codec]") {
  struct {
    const char* text;
    CodecSpec spec;
  } cases[] = {
      {"none", {}},
      {"bf16", {.name = "bf16"}},
      {"quantize:4", {.name = "quantize", .bits = 4}},
      {"quantize:1:512", {.name = "quantize", .bits = 1, .bucket = 512}},
      {"quantize:8:1", {.name = "quantize", .bits = 8, .bucket = 1}},
      {"quantize:2:1024:stochastic", {.name = "quantize", .bits = 2, .stochastic = true}},
      {"adaptive", {.name = "adaptive"}},
      {"adaptive:128", {.name = "adaptive", .bucket = 128}},
      {"adaptive:1024:20", {.name = "adaptive", .period = 20}},
      {"topk:0.001", {.name = "topk", .fraction = 0.001}},
      {"topk:1", {.name = "topk", .fraction = 1}},
      {"threshold:0.123456789", {.name = "threshold", .fraction = 0.123456789}},
      {"threshold:0.01:7", {.name = "threshold", .fraction = 0.01, .period = 7}},
      {"lowrank:2", {.name = "lowrank", .rank = 2}},
      {"pca:8", {.name = "pca", .rank = 8}},
      {"pca:8:3", {.name = "pca", .rank = 8, .period = 3}},
  };
  for (const auto& c : cases) {
    INFO(c.text);
    CHECK(parse_codec(c.text) == c.spec);
    CHECK(print(c.spec) == c.text);
  }
  CHECK(parse_codec("quantize:4:1024") == parse_codec("quantize:4"));
}

TEST_CASE("codec spec: every codec of the list is read as it is printed", "[codec]") {
  for (const CodecKind* kind : codec_kinds()) {
    const CodecSpec usual{.name = kind->name};
    INFO(print(usual));
    CHECK(parse_codec(print(usual)) == usual);
    CHECK(&usual.kind() == kind);
    CHECK_THAT(codec_usages(), Contains(kind->name));
    CHECK(usual.is_none() == (usual == CodecSpec()));
  }
  CHECK(codec_usages() ==
        "none, bf16, quantize:BITS[:BUCKET[:stochastic]], adaptive[:BUCKET[:PERIOD]], "
        "topk:FRACTION, threshold:FRACTION[:PERIOD], lowrank:RANK, pca:RANK[:PERIOD]");
  CHECK(codec_usages(for_activations) ==
        "none, bf16, quantize:BITS[:BUCKET[:stochastic]], topk:FRACTION, "
        "threshold:FRACTION[:PERIOD]");
  CHECK(codecs_to_use(for_activations) == "quantize, topk, threshold or bf16");
}

TEST_CASE("codec spec: what makes no sense is refused, with what does", "[codec]") {
  struct {
    const char *text, *message;
  } cases[] = {
      {"quantize:9", "quantize:9: 9 can't be the number of bits; use 1 to 8 bits"},
      {"quantize:0", "use 1 to 8 bits"},
      {"quantize:-1", "use 1 to 8 bits"},
      {"quantize:4.5", "use 1 to 8 bits"},
      {"quantize", "quantize: the number of bits is missing; use 1 to 8 bits"},
      {"quantize:", "the number of bits is missing"},
      {"quantize:4:0", "0 can't be the bucket; use 1 element or more"},
      {"quantize:4:", "the bucket is missing"},
      {"quantize:4:99999999999", "can't be the bucket"},
      {"quantize:4:64:random", "expected stochastic after the bucket, or nothing, got random"},
      {"quantize:4:64:stochastic:1", "nothing can follow here, got :1"},
      {"none:1", "nothing can follow here"},
      {"bf16:", "nothing can follow here"},
      {"adaptive:x", "x can't be the bucket"},
      {"topk", "the fraction of values to send is missing"},
      {"topk:0", "use more than 0, at most 1"},
      {"topk:1.1", "use more than 0, at most 1"},
      {"topk:nan", "use more than 0, at most 1"},
      {"threshold:0.1:0", "0 can't be the period; use 1 or more"},
      {"lowrank:0", "0 can't be the rank"},
      {"pca:4:-2", "-2 can't be the period"},
      {"pca:4:1", "1 can't be the period; use 2 or more"},
      {"gzip", "there is no such codec; use none, bf16, quantize:BITS[:BUCKET[:stochastic]]"},
      {"", "there is no such codec"},
      {"Quantize:4", "there is no such codec"},
  };
  for (const auto& c : cases) {
    INFO(c.text);
    CHECK_THROWS_WITH(parse_codec(c.text), Contains(c.message));
  }
}

TEST_CASE("codec spec: bytes of an encoding", "[codec]") {
  auto bytes = [](const char* codec, std::int64_t count, std::int64_t element) {
    return encoded_bytes(parse_codec(codec), count, element);
  };
  CHECK(bytes("none", 10, 4) == 40);
  CHECK(bytes("bf16", 11, 4) == 22);
  // One bucket: two numbers; 11 levels of 3 bits fill 5 bytes, so one word of 8.
  CHECK(bytes("quantize:3:64", 11, 4) == 8 + 8);
  CHECK(bytes("quantize:3:64", 11, 2) == 4 + 8);
  CHECK(bytes("quantize:3:5", 11, 4) == 3 * 8 + 8);
  CHECK(bytes("quantize:8:64", 65, 4) == 2 * 8 + 72);
  CHECK(bytes("quantize:4:64", 0, 4) == 0);
  CHECK(bytes("adaptive:64", 64, 4) == 8 + 32);
  CHECK(bytes("topk:0.1", 100, 4) == 10 * 8);
  CHECK(bytes("topk:0.07", 100, 2) == 7 * 6);  // 0.07 * 100 > 7 in doubles
  CHECK(bytes("topk:0.1", 1, 4) == 8);
  CHECK(bytes("topk:1", 3, 4) == 24);
  CHECK(bytes("threshold:0.1", 101, 4) == 11 * 8);
  CHECK_THROWS_WITH(bytes("lowrank:4", 100, 4), Contains("codec lowrank:4"));
  for (const char* codec : {"none", "bf16", "quantize:4", "adaptive", "topk:0.1", "threshold:0.1"})
    CHECK(is_local(parse_codec(codec)));
  CHECK_FALSE(is_local(parse_codec("lowrank:4")));
  CHECK_FALSE(is_local(parse_codec("pca:4")));
}

TEST_CASE("codec spec: quantized f32 is smaller by the paper's factors", "[codec]") {
  constexpr std::int64_t n = 1 << 20;
  struct {
    const char* codec;
    double factor;
  } cases[] = {{"quantize:4:128", 7.11}, {"quantize:4:512", 7.76}, {"quantize:4:1024", 7.88}};
  for (const auto& c : cases)
    CHECK(std::abs(4.0 * n / encoded_bytes(parse_codec(c.codec), n, 4) - c.factor) < 0.005);
}
