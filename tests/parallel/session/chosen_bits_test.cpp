// Adaptive runs: each rank measures its own gradient, and the bits are chosen from all of them.
// Not here: measuring and choosing as such (adaptive_bits_test), runs with given bits
// (codec_engine_test). Chapter 10; Alimohammadi et al. 2022 (L-GreCo).

#include "autograd/backend.h"
#include "autograd/cpu/cpu_backend.h"
#include "nn/checkpoint/file.h"
#include "parallel/codecs/codec.h"
#include "parallel/observers/bit_choice.h"
#include "parallel/transports/launch.h"
#include "tests/catch.h"
#include "tests/parallel/support/coded_runs.h"
#include "tests/parallel/support/small_session.h"

using namespace plangrad::tests;

namespace {

/// The first update's plan is measured, and the bits are chosen after it.
std::vector<CodedRun> runs() {
  const std::string codec = "adaptive:64:1";
  return {{.schedule = "data", .codec = codec},
          {.schedule = "data", .codec = codec, .zero = 2, .clip = true},
          {.schedule = "2bw", .codec = codec},
          {.schedule = "cyclic-v1", .codec = codec},
          {.schedule = "cyclic-v2", .codec = codec},
          {.schedule = "cyclic-v1", .codec = codec, .setting = Setting::zero}};
}

/// A microbatch's gradients at the first weights, flat, by stage.
std::vector<Tensor> gradients_of(const Training& training, Batches& batches, int micro) {
  const DevicePtr device = cpu_device();
  std::deque<StageRunner> runners;  // which stay where they are
  std::vector<Tensor> gradients, weights;
  Tensor x = batches.inputs(micro, device);
  for (int stage = 0; stage < training.stages(); ++stage) {
    StageRunner& runner = runners.emplace_back(training, stage, device);
    const ParameterList& list = runner.parameters();
    weights.push_back(zeros({list.numel()}, DType::f32, device));
    initialize(list, weights.back(), training.seed);
    gradients.push_back(zeros({list.numel()}, DType::f32, device));
    x = runner.forward(micro, {.x = x,
                               .targets = batches.targets(micro, device),
                               .weights = weights.back(),
                               .shared = {},
                               .sink = add_to_flat(gradients.back())});
  }
  Tensor dy;
  for (int stage = training.stages(); stage-- > 0;)
    dy = runners[stage].backward(micro, dy, Value::none, weights[stage]);
  return gradients;
}

/// Of what each rank's own microbatches add to the first update, computed serially.
std::vector<BitOptions> serial_options(const CodedRun& run) {
  set_compute_threads(1);
  const Training training = training_of(run);
  const Plan plan = make_plan(run.schedule, layout_of(run, 1));
  SmallBatches batches(coded_gpt(run.tied));
  std::vector<BitOptions> options(plan.ranks());
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    std::map<int, Tensor> sums;  // by stage
    for (const Instruction& x : plan.rows[rank]) {
      if (x.op != Op::backward) continue;
      const Tensor gradient = gradients_of(training, batches, x.micro)[x.stage];
      auto [sum, is_first] = sums.insert({x.stage, gradient});
      if (!is_first) gradient.backend().accumulate(gradient, sum->second);
    }
    for (const auto& [stage, sum] : sums) {
      const StageRunner runner(training, stage, cpu_device());
      options[rank].merge(
          make_codec_of(plan, training, rank, stage, runner.parameters(), cpu_device())
              .bit_options(sum));
    }
  }
  return options;
}

/// What a session of one update chooses.
Bits chosen_by_session(const CodedRun& run) {
  const RunFolder folder;
  const Training training = training_of(run);
  run_ranks(layout_of(run, 1).stages == 3 ? 3 : 4, [&](Transport& transport) {
    set_compute_threads(1);
    SmallData data(coded_gpt(false));
    SessionSettings settings = settings_of(folder);
    settings.steps = 1;
    settings.observers = [&] {
      Observers all = observers_of()();
      all.insert(all.end() - 1, std::make_unique<BitChoice>(parse_codec(run.codec)));
      return all;
    };
    settings.plans = std::make_shared<Plans>(run.schedule, layout_of(run, 1));
    run_session(training, transport, cpu_device(), data, settings);
  });
  return nlohmann::json::parse(read_file(folder / "summary.json")).at("bits").get<Bits>();
}

}  // namespace

TEST_CASE("adaptive runs: a rank measures its own gradient, without those that arrive", "[codec]") {
  for (const CodedRun& run : runs()) {
    INFO(run);
    const Outcome outcome = by_engine(run, 1, 1);
    const std::vector<BitOptions> expected = serial_options(run);
    for (std::size_t rank = 0; rank < expected.size(); ++rank) {
      INFO("rank " << rank);
      const bool same = outcome.last[rank].bit_options == expected[rank];
      CHECK(same);
    }
  }
}

TEST_CASE("adaptive runs: the bits are chosen from what all ranks measured", "[codec]") {
  for (const CodedRun& run : runs()) {
    INFO(run);
    const std::vector<BitOptions> measured = serial_options(run);
    const Bits chosen = chosen_by_session(run);
    const auto rule = parse_codec(run.codec).kind().chooses_bits;
    CHECK(chosen == rule(measured));
    CHECK(chosen != rule({measured[0]}));

    const Training training = training_of(run);
    std::size_t encoded = 0;
    for (int stage = 0; stage < training.stages(); ++stage) {
      const StageRunner runner(training, stage, cpu_device());
      for (const Parameter& p : runner.parameters()) {
        if (!is_encoded(p)) continue;
        ++encoded;
        CHECK(chosen.contains(p.name));
      }
    }
    CHECK(chosen.size() == encoded);
  }
}

TEST_CASE("random numbers of codecs are of a rank and a stage", "[codec]") {
  const CodedRun run{.schedule = "data", .codec = "quantize:2:64:stochastic"};
  const Training training = training_of(run);
  const Plan plan = make_plan(run.schedule, layout_of(run, 1));
  const DevicePtr device = cpu_device();
  ParameterList list;
  list.add("matrix", {40, 40}, Init::normal(1));
  auto received = [&](int rank, int stage) {
    const Tensor gradient = zeros({list.numel()}, DType::f32, device);
    initialize(list, gradient, 1);
    BufferCodec codec = make_codec_of(plan, training, rank, stage, list, device);
    const Range all{0, list.numel()};
    const Tensor bytes = empty({codec.encoded_bytes(all)}, DType::u8, device);
    codec.encode(gradient, all, 1, true, bytes);
    return to_host(gradient);
  };
  const auto of_first = received(0, 0);
  const bool again = received(0, 0) == of_first, by_another_rank = received(1, 0) == of_first,
             of_another_stage = received(0, 1) == of_first;
  CHECK(again);
  CHECK_FALSE(by_another_rank);
  CHECK_FALSE(of_another_stage);
}
