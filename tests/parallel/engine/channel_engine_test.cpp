// Plans whose activations, and their gradients, are encoded, by the engine: the bits of the serial
// interpreter; and one mask both ways.
// Not here: encoded sums (codec_engine_test). Chapter 10; Gupta et al. 2021 (DCT).

#include "autograd/backend.h"
#include "autograd/cpu/cpu_backend.h"
#include "parallel/codecs/message_codec.h"
#include "tests/catch.h"
#include "tests/numbers.h"
#include "tests/parallel/support/coded_runs.h"
#include "tests/sanitized.h"

using namespace plangrad::tests;

namespace {

const std::vector<std::string> codecs{"quantize:4", "quantize:3:64:stochastic", "topk:0.2",
                                      "threshold:0.2:3", "bf16"};

std::vector<CodedRun> runs() {
  std::vector<CodedRun> runs;
  for (const char* schedule : {"gpipe", "1f1b", "2bw", "pipedream"})
    for (bool tied : {false, true})
      runs.push_back({.schedule = schedule, .clip = tied, .tied = tied});
  for (const char* schedule : {"cyclic-v1", "cyclic-v2"})
    for (Setting setting : {Setting::pipeline, Setting::model})
      runs.push_back({.schedule = schedule, .setting = setting});
  return fewer(runs);
}

/// Returns the losses.
std::map<int, double> check_same(const CodedRun& run, int capacity) {
  INFO(run);
  const Outcome serial = serially(run, 2, 2), parallel = by_engine(run, 2, 2, capacity);
  check_same_bits(parallel, serial);
  for (const auto& [micro, loss] : parallel.losses) CHECK(std::isfinite(loss));
  return parallel.losses;
}

/// Sends a value through the codec of one rank to that of another.
Tensor sent(ChannelCodec& from, ChannelCodec& to, const char* message, const Tensor& x) {
  const Instruction send = parse_instruction(message);
  Tensor bytes = empty({from.encoded_bytes(send, x.numel(), x.dtype())}, DType::u8, x.device());
  from.encode(send, x, bytes);
  Tensor y = empty_like(x);
  to.decode(send, bytes, y);
  return y;
}

}  // namespace

TEST_CASE("encoded activations: engine and serial interpreter have the same bits", "[codec]") {
  int number = 0;
  for (CodedRun run : runs()) {
    const Outcome without = serially(run, 2, 2);
    for (const std::string& channel : codecs) {
      run.channel = channel;
      CHECK(check_same(run, number++ % 2 * 2) != without.losses);
    }
  }
}

TEST_CASE("encoded activations and encoded sums go together", "[codec]") {
  int number = 0;
  for (CodedRun run : runs()) {
    if (run.setting == Setting::pipeline) continue;  // no sum leaves its rank
    for (const char* codec : {"quantize:4", "topk:0.1", "lowrank:2"}) {
      if (is_cyclic(run.schedule) && codec == std::string("lowrank:2")) continue;
      run.codec = codec;
      for (const char* channel : {"quantize:8", "topk:0.2"}) {
        run.channel = channel;
        check_same(run, number++ % 2 * 2);
      }
    }
  }
}

TEST_CASE("encoded activations: the gradient comes back where the activation was sent", "[codec]") {
  const DevicePtr device = cpu_device();
  for (const char* name : {"topk:0.3", "threshold:0.3"})
    for (DType dtype : {DType::f32, DType::bf16}) {
      INFO(name << ' ' << dtype);
      ChannelCodec one(parse_codec(name), {}), two(parse_codec(name), {});
      // Two microbatches are under way, and come back in the other order.
      const Tensor a = floats({1, -9, 3, 0.5f, 8, -7, 2, 0, 1, 1}, {2, 5}, device, dtype);
      const Tensor b = floats({9, 1, 8, 0.5f, 1, -7, 2, 0, 1, 1}, {2, 5}, device, dtype);
      CHECK(to_host(sent(one, two, "0a0>1", a)) == Numbers{0, -9, 0, 0, 8, -7, 0, 0, 0, 0});
      CHECK(to_host(sent(one, two, "0a1>1", b)) == Numbers{9, 0, 8, 0, 0, -7, 0, 0, 0, 0});
      const Tensor da = floats({1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, {2, 5}, device, dtype);
      CHECK(to_host(sent(two, one, "0g1>0", da)) == Numbers{1, 0, 3, 0, 0, 6, 0, 0, 0, 0});
      CHECK(to_host(sent(two, one, "0g0>0", da)) == Numbers{0, 2, 0, 0, 5, 6, 0, 0, 0, 0});
      CHECK_THROWS_WITH(sent(two, one, "0g0>0", da), Contains("no activation of stage 0 passed"));
      // No indices: two bytes or four for each of the three slots.
      const Instruction gradient = parse_instruction("0g0>0");
      CHECK(one.encoded_bytes(gradient, 10, dtype) == 3 * size_of(dtype));
    }
}

TEST_CASE("encoded activations: all bytes of a run are those of the formula", "[codec]") {
  for (const char* channel : {"none", "bf16", "quantize:4:64", "topk:0.2"}) {
    INFO(channel);
    const CodecSpec spec = parse_codec(channel);
    const CodedRun run{.schedule = "1f1b", .channel = channel};
    const std::int64_t values = 2 * 8 * 32;  // rows, context, width
    const std::int64_t slots_only =
        channel == std::string("topk:0.2") ? index_bytes(spec, values) : 0;
    std::int64_t activations = 0, gradients = 0;
    for (RunResult& rank : by_engine(run, 1, 1).last) {
      activations += rank.bytes_sent["activations"];
      gradients += rank.bytes_sent["activation gradients"];
    }
    CHECK(activations == 4 * encoded_bytes(spec, values, 4));  // of four microbatches
    CHECK(gradients == 4 * (encoded_bytes(spec, values, 4) - slots_only));
  }
}
