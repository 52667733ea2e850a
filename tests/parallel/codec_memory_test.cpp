// What codecs keep on a rank, and what they send, in bytes: both are predicted from the model.
// Not here: times (tests/benchmarks).
#include "autograd/cpu/cpu_backend.h"
#include "autograd/cpu/threads.h"
#include "parallel/collective_run.h"
#include "parallel/transports/launch.h"
#include "tests/catch.h"
#include "tests/parallel/coded_runs.h"

using namespace paragrad::tests;

namespace {

/// The parameters of all stages that a rank of plain data parallelism holds.
std::vector<std::shared_ptr<Stage>> stages_of(const Training& training) {
  std::vector<std::shared_ptr<Stage>> stages;
  for (int i = 0; i < training.stages(); ++i)
    stages.push_back(
        std::make_shared<Stage>(training.model, training.cuts[i], training.cuts[i + 1]));
  return stages;
}

/// Bytes of a message that brings these elements of a stage.
std::int64_t bytes_of(const ParameterList& parameters, Range range, const CodecSpec& spec) {
  std::int64_t bytes = 0;
  for (const Parameter& p : parameters) {
    const std::int64_t count =
        std::min(range.end, p.offset + p.shape.numel()) - std::max(range.begin, p.offset);
    if (count <= 0) continue;
    const bool encoded = p.shape.rank() > 1 && p.shape.numel() >= 1024;
    bytes += encoded ? (encoded_bytes(spec, count, 4) + 7) / 8 * 8 : 4 * count;
  }
  return bytes;
}

}  // namespace

TEST_CASE("codecs keep what they left out, once, and quantizers keep nothing", "[codec][memory]") {
  std::map<std::string, std::int64_t> kept;
  for (const char* codec : {"none", "quantize:4", "topk:0.1", "threshold:0.1", "bf16"})
    kept[codec] =
        by_engine({.schedule = "data", .codec = codec}, 2, 1).live[0].at(Category::communication);
  std::int64_t elements = 0;
  for (const auto& stage : stages_of(training_of({.schedule = "data"})))
    elements += stage->parameters().numel();
  CHECK(kept["none"] == 0);
  CHECK(kept["bf16"] == 0);
  CHECK(kept["quantize:4"] == 0);
  CHECK(kept["topk:0.1"] == 4 * elements);
  CHECK(kept["threshold:0.1"] == 4 * elements);
}

TEST_CASE("codes of sums that only one member needs end when they are sent", "[codec][memory]") {
  ParameterList list;
  list.add("matrix", {1000, 200}, Init::constant(0));
  const std::int64_t piece = 1000;  // of 200,000 elements
  for (AllReduce how : {AllReduce::scatter_reduce, AllReduce::ring})
    run_ranks(2, [&, how](Transport& transport) {
      set_compute_threads(1);
      const DevicePtr device = cpu_device();
      Tensor x = full({list.numel()}, 0.3, DType::f32, device);
      BufferCodec codec(list, parse_codec("bf16"), {}, device);
      CollectiveRun run(reduce_scatter({how}, transport.rank(), 2), x, {0, 1}, 1, 4 * piece,
                        {&codec, 1});
      finish(run, transport, 60);
      // Those under way both ways, and one that is decoded.
      PG_CHECK(device->meter().peak(Category::communication) <=
                   (2 * CollectiveRun::window + 1) * 4 * piece,
               "codes take ", device->meter().peak(Category::communication), " bytes");
      // What the other member needs stays as it was.
      const Range other = chunk_range(list.numel(), 1 - transport.rank(), 2);
      const double kept = to_host(x)[other.begin];
      PG_CHECK(kept == 0.3f, "0.3 became ", kept);
    });
  SUCCEED("both reductions on both members");
}

TEST_CASE("a rank sends the bytes of the formula, chunk by chunk and layer by layer", "[codec]") {
  const int ranks = 4;
  for (const char* codec : {"none", "bf16", "quantize:4", "quantize:3:64", "topk:0.1"}) {
    INFO(codec);
    const CodedRun run{.schedule = "data", .codec = codec};
    const Outcome outcome = by_engine(run, 1, 1);
    const auto stages = stages_of(training_of(run));
    for (int rank = 0; rank < ranks; ++rank) {
      // Each other rank's chunk once, and three times this rank's own of the sum.
      std::int64_t bytes = 0;
      for (const auto& stage : stages) {
        const ParameterList& list = stage->parameters();
        for (int chunk = 0; chunk < ranks; ++chunk)
          bytes += (chunk == rank ? ranks - 1 : 1) *
                   bytes_of(list, chunk_range(list.numel(), chunk, ranks), parse_codec(codec));
      }
      CHECK(outcome.last[rank].bytes_sent.at("reductions") == bytes);
    }
  }
}
