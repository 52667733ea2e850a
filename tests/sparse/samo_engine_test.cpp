// Training with SAMO: the bits of dense tensors multiplied by the mask, on every schedule, in f32
// and bf16; of the serial interpreter, with codecs, too; and of the plain loop that both mean.
// Not here: memory and messages (samo_costs_test.cpp), checkpoints (pruned_state_test.cpp).

#include "tests/catch.h"
#include "tests/guarded_device.h"
#include "tests/parallel/support/whole_model.h"
#include "tests/sanitized.h"
#include "tests/sparse/pruned_runs.h"

using namespace plangrad::tests;

namespace {

void check_masked(const PrunedRun& run, int steps) {
  INFO(run);
  Pruned pruned(run, 2, steps / 2);
  const Outcome samo = pruned.by_engine(), masked = pruned.masked();
  const bool same = expanded(by_stage(samo, run.zero), pruned.training, *pruned.masks) ==
                    by_stage(masked, run.zero);
  CHECK(same);
  CHECK(samo.losses == masked.losses);
  CHECK(samo.losses.rbegin()->first == pruned.plans[1].plan().last_micro() - 1);
}

}  // namespace

TEST_CASE("50 steps of AdamW with SAMO are those with masked tensors, bit for bit", "[samo]") {
  for (DType dtype : {DType::f32, DType::bf16})
    for (PrunedRun run : fewer(pruned_runs())) {
      run.dtype = dtype;
      check_masked(run, sanitized ? 4 : 50);
    }
}

TEST_CASE("SAMO keeps any fraction", "[samo]") {
  for (const char* schedule : {"data", "2bw"})
    for (double fraction : {0.0, 0.25, 0.5, 0.9, 0.95, 0.9999}) {
      PrunedRun run;
      run.schedule = schedule;
      run.pruned = fraction;
      run.all = true;
      check_masked(run, 4);
    }
}

TEST_CASE("nothing pruned is dense training", "[samo]") {
  PrunedRun run;
  run.schedule = "1f1b";
  run.pruned = 0;
  Pruned pruned(run, 1, 4);
  const Outcome samo = pruned.by_engine();
  pruned.training.form = nullptr;
  CHECK(samo.weights == pruned.by_engine().weights);
}

TEST_CASE("SAMO by the engine has the bits of the serial interpreter", "[samo]") {
  for (PrunedRun run : fewer(pruned_runs()))
    for (bool clip : {false, true}) {
      run.clip = clip && run.schedule != "cyclic-v2" && !(run.tied && run.schedule == "pipedream");
      if (clip != run.clip) continue;
      INFO(run);
      Pruned pruned(run, 2, 2);
      const Outcome serial = pruned.serially(), parallel = pruned.by_engine(clip ? 2 : 0);
      check_same_bits(parallel, serial);
    }
}

TEST_CASE("SAMO under a codec has the bits of the serial interpreter", "[samo]") {
  const std::vector<std::string> codecs{"quantize:4", "topk:0.1", "threshold:0.1:3", "bf16",
                                        "adaptive:64:1"};
  std::size_t next = 0;
  for (PrunedRun run : fewer(pruned_runs())) {
    if (is_cyclic(run.schedule) &&
        (run.setting == Setting::pipeline || run.setting == Setting::one_device))
      continue;  // no sum leaves its rank
    run.codec = codecs[next++ % codecs.size()];
    run.pruned = 0.5;
    INFO(run);
    Pruned pruned(run, 2, 2);
    const Outcome serial = pruned.serially(), parallel = pruned.by_engine();
    check_same_bits(parallel, serial);
    run.codec = "none";
    CHECK(parallel.losses != Pruned(run, 2, 2).by_engine().losses);
  }
}

TEST_CASE("endless plans with SAMO give the bits of plans of one length", "[samo]") {
  for (PrunedRun run : pruned_runs()) {
    if (run.schedule != "2bw" && run.schedule != "pipedream" && !is_cyclic(run.schedule)) continue;
    if (run.setting == Setting::one_device) continue;  // has no endless plan
    if (run.schedule == "2bw") run.codec = "quantize:4";
    INFO(run);
    Layout layout = layout_of(run, 1);
    layout.recompute = run.recompute;
    const auto found = make_endless(run.schedule, layout);
    REQUIRE(found);
    layout.steps = 1;
    const int steps_of_one = make_plan(run.schedule, layout).steps;  // a step can be one microbatch
    int bodies = 2, steps = found->steps + found->period;
    for (; steps % steps_of_one != 0; ++bodies) steps += found->period;
    Pruned plain(run, 1, steps / steps_of_one);
    const Outcome endless =
        run_endless(plain.training, verify(*found), plain.batches, {.bodies = bodies});
    const Outcome same = plain.by_engine();
    check_same_bits(endless, same);
  }
}

TEST_CASE("a low-rank codec has no matrices to factor under SAMO, and is refused", "[samo]") {
  PrunedRun run;
  run.schedule = "data";
  run.codec = "lowrank:2";
  CHECK_THROWS_WITH(Pruned(run, 1, 1).by_engine(), Contains("leave out --samo"));
}

TEST_CASE("the norm of a compressed gradient is the dense one's", "[samo]") {
  // Two orders of n terms: within n u of each other, u = 2^-53.
  for (const char* schedule : {"data", "gpipe", "1f1b", "2bw"}) {
    PrunedRun run;
    run.schedule = schedule;
    run.clip = true;
    INFO(run);
    Pruned pruned(run, 1, 1);
    const double samo = pruned.by_engine().norms.at(1), masked = pruned.masked().norms.at(1);
    const double n = static_cast<double>(pruned.training.whole.numel());
    CHECK(std::abs(samo - masked) <= n * 0x1p-53 * masked);
  }
}

TEST_CASE("SAMO uses a device's memory through its kernels alone", "[samo]") {
  PrunedRun run;
  run.schedule = "data";
  Pruned pruned(run, 1, 2);
  Layout layout{.stages = 2, .microbatches = 2, .steps = 2};
  pruned.plans = {verify(make_plan("data", layout))};
  const Outcome guarded =
      run_on_one_rank(pruned.training, pruned.plans, pruned.batches, guarded_device());
  CHECK(guarded.weights ==
        run_on_one_rank(pruned.training, pruned.plans, pruned.batches, cpu_device()).weights);
}

namespace {

/// 1 where elements are kept, in the whole model's order.
Tensor mask_of(const Training& training, const Masks& masks) {
  std::vector<float> mask(training.whole.numel(), 1);
  for (const Parameter& p : training.whole) {
    if (!masks.contains(p.name)) continue;
    std::fill_n(mask.begin() + p.offset, p.shape.numel(), 0.0f);
    for (std::int32_t i : masks.at(p.name)) mask[p.offset + i] = 1;
  }
  return from_host(mask, {training.whole.numel()}, cpu_device());
}

Tensor times(const Tensor& x, const Tensor& mask) {
  const Tensor y = empty_like(x);
  x.backend().binary(Binary::multiply, x, mask, y);
  return y;
}

}  // namespace

/// theta(t+1) = mask * AdamW(theta(t), mask * gradient at theta(t - delay))
TEST_CASE("SAMO is a dense loop that multiplies weights and gradients by the mask", "[samo]") {
  for (auto [schedule, delay] : {std::pair("data", 0), {"gpipe", 0}, {"1f1b", 0}, {"2bw", 1}}) {
    PrunedRun run;
    run.schedule = schedule;
    INFO(run);
    Pruned pruned(run, 1, 6);
    const Layout layout = layout_of(run, 6);
    WholeModel model(pruned.training, layout, pruned.batches);
    const Tensor mask = mask_of(pruned.training, *pruned.masks);
    std::vector<Tensor> theta{times(model.first(), mask)};
    for (int t = 0; t < layout.steps; ++t) {
      const Tensor gradient = times(model.gradient(theta[std::max(t - delay, 0)], t), mask);
      theta.push_back(times(model.update(theta[t], gradient, t + 1), mask));
    }
    const StageWeights samo =
        expanded(by_stage(pruned.by_engine(), 0), pruned.training, *pruned.masks);
    for (const auto& [where, weights] : samo) {
      const bool same = weights == model.part(theta.back(), where.first);
      CHECK(same);
    }
  }
}
