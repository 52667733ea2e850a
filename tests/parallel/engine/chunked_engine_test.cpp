// Ranks with several stages, backwards in two parts, and two copies of a model, trained: the bits
// of one rank or of replicas, and with all options those of the serial interpreter.
#include "tests/catch.h"
#include "tests/parallel/support/ordinary_schedules.h"
#include "tests/parallel/support/small_run.h"
#include "tests/sanitized.h"

using namespace plangrad::tests;

namespace {

struct Chunked {
  std::string schedule;
  Layout layout;  ///< of two steps
};

std::vector<Chunked> chunked() {
  const Layout four{.stages = 4, .microbatches = 4, .steps = 2};
  Layout uneven = four, three = four, folded = four;
  uneven.microbatches = 3;
  three.stages = 6, three.chunks = 3;
  folded.placement = Placement::v;
  return {{"interleaved", three}, {"interleaved", uneven}, {"looped-bfs", four},
          {"looped-bfs", folded}, {"zb-h1", four},         {"zb-h2", four},
          {"zb-v", uneven},       {"zb-v", four},          {"dualpipe-v", four},
          {"dualpipe-v", uneven}, {"dualpipe", four},      {"dualpipe", uneven}};
}

Training training_of(const Layout& layout) {
  Training training(gpt(small_gpt(layout.tied, 0.1)), layout.stages);
  training.clip = layout.clip ? 0.3 : 0;
  training.learning_rate = {0.02, 0.002, 1, 8};
  return training;
}

}  // namespace

TEST_CASE("chunked pipelines learn as one rank does, bit for bit", "[chunked]") {
  for (const auto& [schedule, layout] : chunked()) {
    const bool two_copies = schedule == "dualpipe";
    if (two_copies && layout.microbatches % 2 == 1) continue;  // no replicas are like that
    Layout plain{.stages = layout.stages, .microbatches = layout.microbatches, .steps = 2};
    if (two_copies) plain.width = 2, plain.microbatches /= 2;
    const Training training = training_of(layout);
    SmallBatches batches(small_gpt());
    const Outcome ours = run_by_engine(training, plans_of(schedule, layout), batches);
    const Outcome one = run_by_engine(training, plans_of("data", plain), batches);
    INFO(schedule << ", " << layout.microbatches << " microbatches");
    CHECK(ours.losses == one.losses);
    CHECK(ours.losses.size() == 2u * layout.microbatches);
    for (const auto& [where, weights] : ours.weights)
      CHECK(weights == one.weights.at({0, where.second}));
  }
}

TEST_CASE("chunked pipelines combine with all options, and give the bits of the serial interpreter",
          "[chunked]") {
  int i = 0;
  for (auto [schedule, layout] : fewer(chunked())) {
    layout.width = 2;
    layout.recompute = ++i % 2 == 0;
    layout.clip = i % 3 != 0;
    layout.tied = i % 4 != 0;
    layout.zero = i % 5 == 0 ? 0 : 1;
    layout.codec = parse_codec(i % 2 == 0 ? "quantize:4" : "none");
    layout.channel = parse_codec(i % 3 == 0 ? "bf16" : "none");
    const Training training = training_of(layout);
    SmallBatches batches(small_gpt());
    const auto plans = plans_of(schedule, layout, 2);
    const Outcome serial = run_serially(training, plans, batches);
    const Outcome engine = run_by_engine(training, plans, batches, i % 2);
    INFO(schedule << ", options " << i);
    check_same_bits(engine, serial);
  }
}
