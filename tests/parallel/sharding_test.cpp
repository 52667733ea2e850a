// ZeRO: sharded plans give the bits of plain data parallelism and of the serial interpreter; memory
// and messages are the formulas'.
#include "autograd/ops.h"
#include "parallel/lifetimes.h"
#include "tests/catch.h"
#include "tests/parallel/plan_cases.h"
#include "tests/parallel/sharded_plans.h"
#include "tests/parallel/small_run.h"

using namespace paragrad::tests;

namespace {

/// Widths and numbers of parameters that 2, 3 and 4 do not divide.
GptConfig odd_gpt(bool tied = false) { return {2, 1, 5, 7, 19, 0.1, tied}; }

struct Form {
  int zero, ranks, stages;
  int microbatches = 1;
  bool clip = false, sgd = false;
  DType dtype = DType::f32;
  AllReduce reduction = AllReduce::scatter_reduce;
};

std::ostream& operator<<(std::ostream& out, const Form& f) {
  return out << "zero " << f.zero << " N" << f.ranks << " D" << f.stages << " M" << f.microbatches
             << (f.clip ? " clip" : "") << (f.sgd ? " sgd " : " adamw ") << f.dtype
             << (f.reduction == AllReduce::ring ? " ring" : "");
}

void use_sgd(Training& training) {
  training.optimizer = [](const ParameterList& list, const Tensor& weights) {
    return make_sgd(list, weights, 0.9, 0.01);
  };
}

Training training_of(const Form& f) {
  Training training(gpt(odd_gpt()), f.stages);
  training.clip = f.clip ? 0.3 : 0;
  training.learning_rate = {0.02, 0.002, 2, 8};
  training.dtype = f.dtype;
  if (f.sgd) use_sgd(training);
  return training;
}

Plan plan_of(const Form& f, int steps, int first = 0) {
  if (f.zero > 0)
    return sharded_plan({f.zero, f.ranks, f.stages, f.microbatches, steps, first, f.clip});
  Layout layout{f.stages, f.ranks, f.microbatches, steps, first};
  layout.clip = f.clip;
  return make_plan("data", layout);
}

std::vector<VerifiedPlan> plans_of(const Form& f, int plans = 2, int steps = 2) {
  std::vector<VerifiedPlan> result;
  for (int i = 0; i < plans; ++i) result.push_back(verify(plan_of(f, steps, i * steps)));
  return result;
}

Outcome run(const Form& f) {
  SmallBatches batches(odd_gpt());
  return run_by_engine(training_of(f), plans_of(f), batches, 0, f.reduction);
}

/// The whole of a stage's newest weights, as rank 0 has them or put together from shards.
std::vector<double> whole(const Outcome& outcome, const Form& f, int stage) {
  std::vector<double> result;
  for (int rank = 0; rank < (f.zero == 3 ? f.ranks : 1); ++rank) {
    const std::vector<double>& part = outcome.weights.at({rank, stage});
    result.insert(result.end(), part.begin(), part.end());
  }
  return result;
}

void check_same_weights(const Outcome& sharded, const Form& f, const Outcome& plain) {
  for (int stage = 0; stage < f.stages; ++stage) {
    CHECK(whole(sharded, f, stage) == plain.weights.at({0, stage}));
    for (int rank = 0; f.zero < 3 && rank < f.ranks; ++rank)
      CHECK(sharded.weights.at({rank, stage}) == plain.weights.at({0, stage}));
  }
}

/// Elements of each stage, and of a rank's shard of it.
std::vector<std::int64_t> counts(const Training& training) {
  std::vector<std::int64_t> result;
  for (int stage = 0; stage < training.stages(); ++stage)
    result.push_back(
        Stage(training.model, training.cuts[stage], training.cuts[stage + 1]).parameters().numel());
  return result;
}

std::int64_t sum(const std::vector<std::int64_t>& counts) {
  std::int64_t total = 0;
  for (std::int64_t count : counts) total += count;
  return total;
}

std::vector<std::int64_t> shards(std::vector<std::int64_t> counts, int rank, int ranks) {
  for (std::int64_t& count : counts) count = chunk_range(count, rank, ranks).size();
  return counts;
}

/// The most bytes of one kind along a row: `alive` begins with what is there, changes say by how many
/// elements an instruction changes it, before and after.
std::int64_t peak_along(
    const Row& row, std::int64_t alive,
    const std::function<std::pair<std::int64_t, std::int64_t>(const Instruction&)>& changes) {
  std::int64_t peak = alive;
  for (const Instruction& x : row) {
    auto [more, less] = changes(x);
    peak = std::max(peak, alive += more);
    alive -= less;
  }
  return peak;
}

}  // namespace

TEST_CASE("the plans under test are the golden one", "[sharding]") {
  Plan plan = sharded_plan({.zero = 3, .ranks = 2, .stages = 3, .steps = 2});
  CHECK(print(plan) == print(parse(plan_text("zero_3"))));
}

TEST_CASE("ZeRO gives the bits of the serial interpreter and of plain data parallelism",
          "[sharding]") {
  int i = 0;
  for (int ranks : {2, 3, 4})
    for (int stages : {1, 2, 3})
      for (bool sgd : {false, true})
        for (DType dtype : {DType::f32, DType::bf16}) {
          Form form{0, ranks, stages};
          form.sgd = sgd;
          form.dtype = dtype;
          form.microbatches = ++i % 3 == 0 ? 2 : 1;
          form.reduction = i % 2 == 0 ? AllReduce::ring : AllReduce::scatter_reduce;
          Training training = training_of(form);
          SmallBatches batches(odd_gpt());
          Outcome plain = run_serially(training, plans_of(form), batches, form.reduction);
          for (int zero : {1, 2, 3}) {
            form.zero = zero;
            INFO(form);
            Outcome sharded = run(form);
            Outcome serial = run_serially(training, plans_of(form), batches, form.reduction);
            CHECK(sharded.weights == serial.weights);
            CHECK(sharded.losses == serial.losses);
            CHECK(sharded.losses == plain.losses);
            check_same_weights(sharded, form, plain);
          }
        }
}

TEST_CASE("clipped ZeRO: the norm within n u of the plain one, the weights the same",
          "[sharding]") {
  for (int ranks : {2, 3, 4})
    for (int zero : {1, 2, 3}) {
      Form form{0, ranks, 2};
      form.clip = true;
      Outcome plain = run(form);
      form.zero = zero;
      INFO(form);
      Outcome sharded = run(form);
      SmallBatches batches(odd_gpt());
      CHECK(sharded.weights == run_serially(training_of(form), plans_of(form), batches).weights);
      // Squares of f32 are exact in f64. Root and division add two roundings to each norm.
      double bound = static_cast<double>(sum(counts(training_of(form))) + 4) * std::ldexp(1, -53);
      bool clipped = false, same_scales = true;
      REQUIRE(sharded.norms.size() == 4);
      for (const auto& [version, norm] : sharded.norms) {
        CHECK(std::abs(norm - plain.norms.at(version)) <= bound * norm);
        auto scale = [&](double x) { return static_cast<float>(clip_scale(x, 0.3) / ranks); };
        clipped |= scale(norm) < 1.0f / static_cast<float>(ranks);
        same_scales &= scale(norm) == scale(plain.norms.at(version));
      }
      CHECK(clipped);
      REQUIRE(same_scales);  // kernels take the scale in f32
      check_same_weights(sharded, form, plain);
    }
}

TEST_CASE("ZeRO 1 and 3 clip as the golden plans say, and with recomputed layers", "[sharding]") {
  for (const char* name : {"zero_1_clip", "zero_3"}) {
    INFO(name);
    VerifiedPlan plan = verify(parse(plan_text(name)));
    Training training(gpt(odd_gpt()), plan.plan().stages);
    training.clip = plan.plan().clip ? 0.3 : 0;
    SmallBatches batches(odd_gpt());
    Outcome plain = run_serially(training, {plan}, batches);
    for (bool recompute : {false, true})
      for (int capacity : {0, 2}) {
        training.recompute_layers = recompute;
        CHECK(run_by_engine(training, {plan}, batches, capacity).weights == plain.weights);
      }
  }
}

TEST_CASE("ZeRO 1 in pipelines: each stage over the ranks that hold it", "[sharding]") {
  for (const char* schedule : {"gpipe", "1f1b", "2bw", "pipedream"})
    for (int width : {2, 3})
      for (bool tied : {false, true})
        for (bool clip : {false, true}) {
          const bool delayed =
              schedule == std::string("2bw") || schedule == std::string("pipedream");
          if (clip && schedule == std::string("pipedream")) continue;
          // A gather is put right behind its step, and the ends of a pipeline without flushes step
          // the tensor that they share at different places.
          if (tied && delayed) continue;
          INFO(schedule << " W" << width << (tied ? " tied" : "") << (clip ? " clip" : ""));
          Training training(gpt(odd_gpt(tied)), 2);
          training.clip = clip ? 0.3 : 0;
          Layout layout{.stages = 2, .width = width, .microbatches = 2, .steps = 3};
          layout.clip = clip;
          layout.tied = tied;
          SmallBatches batches(odd_gpt());
          Plan plain = make_plan(schedule, layout), sharded = with_zero_1(plain);
          VerifiedPlan verified = verify(sharded);
          Outcome engine = run_by_engine(training, {verified}, batches);
          CHECK(engine.weights == run_serially(training, {verified}, batches).weights);
          Outcome reference = run_by_engine(training, {verify(plain)}, batches);
          if (!clip) CHECK(engine.weights == reference.weights);
          for (const auto& [version, norm] : engine.norms)
            CHECK(norm == Approx(reference.norms.at(version)).epsilon(1e-12));
          const auto ranks = holders(sharded);
          for (int rank = 0; rank < sharded.ranks(); ++rank) {
            std::int64_t elements = 0;
            for (int stage = 0; stage < sharded.stage_count(); ++stage)
              for (std::size_t member = 0; member < ranks[stage].size(); ++member)
                if (ranks[stage][member] == rank) {
                  auto count = static_cast<std::int64_t>(engine.weights.at({rank, stage}).size());
                  elements += shard_of(sharded, stage, rank).range(count).size();
                }
            CHECK(engine.live[rank].at(Category::optimizer) == 8 * elements);
          }
        }
}

TEST_CASE("squares of a gradient are counted once, by the ranks of its shards", "[sharding]") {
  Form form{0, 3, 2};
  auto squares = [&](int zero) {
    form.zero = zero;
    std::map<int, std::vector<double>> total;
    for (const RunResult& result : run(form).last)
      for (const auto& [version, sums] : result.squares) {
        total[version].resize(sums.size());
        for (std::size_t i = 0; i < sums.size(); ++i) total[version][i] += sums[i];
      }
    return total;
  };
  const auto plain = squares(0);
  REQUIRE(plain.size() == 2);
  for (int zero : {1, 2, 3})
    for (const auto& [version, sums] : squares(zero))
      for (std::size_t i = 0; i < sums.size(); ++i)
        CHECK(sums[i] == Approx(plain.at(version)[i]).epsilon(1e-12));
}

TEST_CASE("memory: 4 phi, 4 phi and 8 phi, and what ZeRO leaves of them", "[sharding]") {
  for (int ranks : {2, 3, 4})
    for (int stages : {1, 3})
      for (int zero : {0, 1, 2, 3})
        for (DType dtype : {DType::f32, DType::bf16}) {
          Form form{zero, ranks, stages};
          form.dtype = dtype;
          INFO(form);
          Outcome outcome = run(form);
          const std::int64_t bytes = dtype == DType::f32 ? 4 : 2;  // of a weight
          const std::int64_t state = dtype == DType::f32 ? 8 : 12;
          const auto stage_counts = counts(training_of(form));
          const std::int64_t all = sum(stage_counts);
          for (int rank = 0; rank < ranks; ++rank) {
            const auto own_counts = shards(stage_counts, rank, ranks);
            const std::int64_t own = sum(own_counts);
            auto live = outcome.live[rank], peak = outcome.peak[rank];
            CHECK(live[Category::weights] == bytes * (zero == 3 ? own : all));
            CHECK(live[Category::optimizer] == state * (zero == 0 ? all : own));
            CHECK(peak[Category::optimizer] == live[Category::optimizer]);
            CHECK(live[Category::gradients] == 0);
            const Plan plan = plan_of(form, 2);
            auto of_sum = [&](const Instruction& x) -> std::pair<std::int64_t, std::int64_t> {
              if (x.op == Op::backward) return {stage_counts[x.stage], 0};
              if (x.op == Op::drop && x.what == Value::gradient_sum)
                return {own_counts[x.stage], stage_counts[x.stage]};
              if (x.op != Op::step) return {0, 0};
              return {0, zero >= 2 ? own_counts[x.stage] : stage_counts[x.stage]};
            };
            CHECK(peak[Category::gradients] == 4 * peak_along(plan.rows[rank], 0, of_sum));
            auto of_weights = [&](const Instruction& x) -> std::pair<std::int64_t, std::int64_t> {
              if (zero < 3 || x.what != Value::weights) return {0, 0};
              const std::int64_t count = stage_counts[x.stage];
              return x.op == Op::gather ? std::pair(count, 0 * count) : std::pair(0 * count, count);
            };
            CHECK(peak[Category::weights] ==
                  bytes * peak_along(plan.rows[rank], zero == 3 ? own : all, of_weights));
          }
        }
}

TEST_CASE("messages: 2 phi, 2 phi and 3 phi", "[sharding]") {
  for (int ranks : {2, 3, 4})
    for (int stages : {1, 3})
      for (AllReduce reduction : {AllReduce::scatter_reduce, AllReduce::ring})
        for (int zero : {0, 1, 2, 3}) {
          Form form{zero, ranks, stages};
          form.reduction = reduction;
          INFO(form);
          Outcome outcome = run(form);
          const std::int64_t steps = 2;  // of the last plan
          const std::int64_t phi = sum(counts(training_of(form)));
          const int sums = zero == 0 ? 2 : 1, gathers = zero == 0 ? 0 : zero == 3 ? 2 : 1;
          std::int64_t sum_bytes = 0, weight_bytes = 0;
          for (const RunResult& result : outcome.last) {
            auto sent = result.bytes_sent;
            sum_bytes += sent["reductions"];
            weight_bytes += sent["gathers"];
            // Shards differ by an element a stage, so a rank's part does by that times N.
            double mean =
                4.0 * static_cast<double>(steps * phi * (sums + gathers)) * (ranks - 1) / ranks;
            double off = 4.0 * static_cast<double>(steps * stages * ranks * (sums + gathers));
            CHECK(std::abs(static_cast<double>(sent["reductions"] + sent["gathers"]) - mean) <=
                  off);
          }
          CHECK(sum_bytes == 4 * steps * sums * (ranks - 1) * phi);
          CHECK(weight_bytes == 4 * steps * gathers * (ranks - 1) * phi);
        }
}
