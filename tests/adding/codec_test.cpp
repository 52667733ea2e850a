// A codec of this program: its messages, and runs that use it.
// Not here: the codec (codec.cpp). Chapter 14.
#include "autograd/cpu/cpu_backend.h"
#include "tests/catch.h"
#include "tests/guarded_device.h"
#include "tests/numbers.h"
#include "tests/parallel/support/coded_runs.h"

using namespace plangrad::tests;

TEST_CASE("adding a codec: signs and one size come back", "[adding]") {
  for (const DevicePtr& device : {cpu_device(), guarded_device()}) {
    const auto codec = make_codec(parse_codec("sign"));
    const Tensor x = from_host(std::vector<float>{1, -2, 0, 4, -5, 6, 3, -3, 3}, {9}, device);
    CHECK(codec->encoded_bytes(9, DType::f32) == 8);  // 4 and 2, in words of 8
    const Tensor bytes = empty({8}, DType::u8, device), y = empty_like(x);
    REQUIRE(codec->encode(x, {}, 0, bytes));
    codec->decode(bytes, y);
    CHECK(to_host(y) == Numbers{3, -3, 3, 3, -3, 3, 3, -3, 3});
    const Tensor infinite = full({9}, INFINITY, DType::f32, device);
    CHECK_FALSE(codec->encode(infinite, {}, 0, bytes));
    CHECK_THROWS_WITH(codec->decode(bytes, empty({90}, DType::f32, device)),
                      Contains("90 values of f32 take 16 bytes, got room for 8"));
  }
}

TEST_CASE("adding a codec: plans and help know its name", "[adding]") {
  CHECK(print(parse_codec("sign")) == "sign");
  CHECK_THAT(codec_usages(), Contains("none") && Contains("sign"));
  CHECK_THROWS_WITH(parse_codec("sigh"), Contains("sign"));
}

TEST_CASE("adding a codec: a run has the bits of the serial interpreter, and learns", "[adding]") {
  for (const char* reduction : {"scatter", "ring"}) {
    const CodedRun run{.schedule = "data", .codec = "sign", .reduction = reduction};
    INFO(run);
    CHECK(by_engine(run, 1, 3).weights == serially(run, 1, 3).weights);
  }
  const Layout layout{.width = 2, .steps = 12, .codec = parse_codec("sign")};
  Training training(gpt(coded_gpt(false)), 1);
  training.clip = 0;
  training.learning_rate = {0.01, 0.01, 0, 12};
  SameBatch batches(coded_gpt(false), 2);
  const Outcome outcome = run_by_engine(training, plans_of("data", layout), batches);
  CHECK(outcome.losses.rbegin()->second < 0.8 * outcome.losses.begin()->second);
}
