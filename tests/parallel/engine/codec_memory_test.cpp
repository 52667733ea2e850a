// What codecs keep on a rank, and what they send, in bytes: both are predicted from the model.
// Not here: times (tests/benchmarks).
#include "autograd/cpu/cpu_backend.h"
#include "parallel/collectives/collective_run.h"
#include "parallel/transports/launch.h"
#include "tests/catch.h"
#include "tests/parallel/support/coded_runs.h"

using namespace plangrad::tests;

namespace {

/// The parameters of all stages that a rank of plain data parallelism holds.
std::vector<std::shared_ptr<Stage>> stages_of(const Training& training) {
  std::vector<std::shared_ptr<Stage>> stages;
  for (int i = 0; i < training.stages(); ++i)
    stages.push_back(
        std::make_shared<Stage>(training.model, training.cuts[i], training.cuts[i + 1]));
  return stages;
}

/// Bytes of a message that brings these elements of a stage; `bits` are of layers, if not as usual.
std::int64_t bytes_of(const ParameterList& parameters, Range range, const CodecSpec& spec,
                      const Bits& bits = {}) {
  std::int64_t bytes = 0;
  for (const Parameter& p : parameters) {
    const std::int64_t count =
        std::min(range.end, p.offset + p.shape.numel()) - std::max(range.begin, p.offset);
    if (count <= 0) continue;
    CodecSpec layer = spec;
    if (bits.contains(p.name)) layer.bits = bits.at(p.name);
    const bool encoded = p.shape.rank() > 1 && p.shape.numel() >= 1024;
    bytes += encoded ? (encoded_bytes(layer, count, 4) + 7) / 8 * 8 : 4 * count;
  }
  return bytes;
}

/// Elements of a stage's two buffers of factors, or of the only one that pca sends.
std::vector<std::int64_t> factor_buffers(const ParameterList& parameters, const CodecSpec& spec) {
  std::int64_t first = 0, second = 0;
  for (const Parameter& p : parameters) {
    const std::int64_t count = p.shape.numel(), rows = p.shape[0], columns = count / rows;
    const bool factored =
        p.shape.rank() > 1 && count >= 1024 && (rows + columns) * spec.rank < count;
    first += factored ? rows * spec.rank : count;
    second += factored ? columns * spec.rank : 0;
  }
  if (spec.name == "pca") return {first};
  return {first, second};
}

/// What a rank sends to sum up `count` elements: each other rank's chunk once and, unless its own
/// of the sum stays here, that to all others. bytes(range): of a message.
template <class Bytes>
std::int64_t sum_bytes(std::int64_t count, int rank, int ranks, bool stays, Bytes bytes) {
  std::int64_t sum = 0;
  for (int chunk = 0; chunk < ranks; ++chunk)
    sum += (chunk != rank ? 1 : stays ? 0 : ranks - 1) * bytes(chunk_range(count, chunk, ranks));
  return sum;
}

const Bits mixed_bits{{"wte.weight", 7},
                      {"h.0.attn.c_attn.weight", 1},
                      {"h.0.mlp.c_fc.weight", 5},
                      {"h.1.mlp.c_proj.weight", 8}};

/// Of all local kinds. Only adaptive ones have bits by layer.
std::vector<CodedRun> with_local_codecs(const CodedRun& like) {
  std::vector<CodedRun> runs;
  for (const char* codec : {"none", "bf16", "quantize:4", "quantize:3:64", "topk:0.1",
                            "threshold:0.1", "adaptive:64"}) {
    runs.push_back(like);
    runs.back().codec = codec;
    if (codec == std::string("adaptive:64")) runs.back().bits = mixed_bits;
  }
  return runs;
}

}  // namespace

TEST_CASE("codecs keep what they left out, once, and quantizers keep nothing", "[codec][memory]") {
  std::map<std::string, std::int64_t> kept;
  for (const char* codec : {"none", "quantize:4", "topk:0.1", "threshold:0.1", "bf16"})
    kept[codec] =
        by_engine({.schedule = "data", .codec = codec}, 2, 1).live[0].at(Category::communication);
  std::int64_t elements = 0;
  for (const auto& stage : stages_of(training_of(CodedRun{.schedule = "data"})))
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
      PG_CHECK(
          device->meter().peak(Category::communication) <= (2 * pieces_in_flight + 1) * 4 * piece,
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
  for (int zero : {0, 2})
    for (const CodedRun& run : with_local_codecs({.schedule = "data", .zero = zero})) {
      INFO(run);
      const Outcome outcome = by_engine(run, 2, 1);
      const auto stages = stages_of(training_of(run));
      for (int rank = 0; rank < ranks; ++rank) {
        std::int64_t bytes = 0;
        for (const auto& stage : stages) {
          const ParameterList& list = stage->parameters();
          bytes += sum_bytes(list.numel(), rank, ranks, zero > 0, [&](Range chunk) {
            return bytes_of(list, chunk, parse_codec(run.codec), run.bits);
          });
        }
        CHECK(outcome.last[rank].bytes_sent.at("reductions") == bytes);
      }
    }
}

TEST_CASE("a rank that passes sums on sends the bytes of the formula", "[codec]") {
  for (const char* schedule : {"cyclic-v1", "cyclic-v2"})
    for (Setting setting : {Setting::data, Setting::zero})
      for (const CodedRun& run : with_local_codecs({.schedule = schedule, .setting = setting})) {
        INFO(run);
        Outcome outcome = by_engine(run, 2, 1);
        const auto stages = stages_of(training_of(run));
        const Plan plan = plans_of(schedule, layout_of(run, 1), 2)[1].plan();
        std::int64_t all = 0;
        for (int rank = 0; rank < plan.ranks(); ++rank) {
          std::int64_t bytes = 0;
          for (const Instruction& x : plan.rows[rank]) {
            if (x.op != Op::send || x.what != Value::gradient_sum) continue;
            const ParameterList& list = stages[x.stage]->parameters();
            bytes += bytes_of(list, {0, list.numel()}, parse_codec(run.codec), run.bits);
          }
          CHECK(outcome.last[rank].bytes_sent["gradient sums"] == bytes);
          all += bytes;
        }
        CHECK(all > 0);
      }
}

TEST_CASE("a rank sends the factors' bytes of the formula", "[codec]") {
  const int ranks = 4;
  for (int zero : {0, 2})
    for (const char* codec : {"lowrank:2", "pca:2:2"}) {
      const CodedRun run{.schedule = "data", .codec = codec, .zero = zero};
      INFO(run);
      const Outcome outcome = by_engine(run, 2, 1);  // the second use of a basis
      const auto stages = stages_of(training_of(run));
      for (int rank = 0; rank < ranks; ++rank) {
        std::int64_t bytes = 0;
        for (const auto& stage : stages)
          for (std::int64_t count : factor_buffers(stage->parameters(), parse_codec(codec)))
            bytes += sum_bytes(count, rank, ranks, false, [](Range x) { return 4 * x.size(); });
        CHECK(outcome.last[rank].bytes_sent.at("reductions") == bytes);
      }
    }
}
