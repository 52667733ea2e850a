// See small_run.h.
#include "tests/parallel/support/small_run.h"

#include "autograd/cpu/cpu_backend.h"
#include "parallel/plan/lifetimes.h"
#include "parallel/transports/launch.h"
#include "parallel/transports/threads_transport.h"

namespace plangrad::tests {

GptConfig small_gpt(bool tied, double dropout) { return {4, 2, 16, 8, 19, dropout, tied}; }

Training small_training(int stages, bool tied, double clip) {
  Training training(gpt(small_gpt(tied)), stages);
  training.clip = clip;
  return training;
}

Training training_with_warmup(const Model& model, int stages, bool adamw, double clip) {
  Training training(model, stages);
  training.clip = clip;
  training.learning_rate = {0.02, 0.002, 2, 8};
  if (!adamw)
    training.optimizer = [](const ParameterList& list, const Tensor& weights) {
      return make_sgd(list, weights, 0.9, 0.01);
    };
  return training;
}

namespace {

/// Rows [first, first + rows) of a long list of ids.
Tensor ids(const std::string& name, std::int64_t rows, const GptConfig& config,
           const DevicePtr& device, std::int64_t first = 0) {
  std::vector<std::int32_t> values(rows * config.context);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<std::int32_t>(
        uniform_integer(RandomKey(7, name), first * config.context + i, config.vocabulary));
  return from_host(values, {rows, config.context}, device);
}

}  // namespace

Tensor SmallBatches::inputs(int micro, const DevicePtr& device) {
  return ids(text("inputs.", micro), rows_, config_, device);
}

Tensor SmallBatches::targets(int micro, const DevicePtr& device) {
  return ids(text("targets.", micro), rows_, config_, device);
}

Tensor SameBatch::inputs(int micro, const DevicePtr& device) {
  std::int64_t rows = rows_ / microbatches_;
  return ids("inputs", rows, config_, device, micro % microbatches_ * rows);
}

Tensor SameBatch::targets(int micro, const DevicePtr& device) {
  std::int64_t rows = rows_ / microbatches_;
  return ids("targets", rows, config_, device, micro % microbatches_ * rows);
}

Tensor SmallImages::inputs(int micro, const DevicePtr& device) {
  Tensor images = empty(shape(micro), DType::f32, device);
  device->backend().fill_normal(RandomKey(7, text("images.", micro)), 0, 1, images);
  return images;
}

Tensor SmallImages::targets(int micro, const DevicePtr& device) {
  const std::int32_t c = micro % 5;
  return from_host(std::vector<std::int32_t>{c, c, (c + 1) % 5, (c + 2) % 5}, {4}, device);
}

std::vector<VerifiedPlan> plans_of(const std::string& schedule, Layout layout, int plans) {
  std::vector<VerifiedPlan> result;
  for (int i = 0; i < plans; ++i) {
    result.push_back(verify(make_plan(schedule, layout)));
    layout.first += layout.steps;
  }
  return result;
}

namespace {

std::size_t hash_of(const Tensor& x) {
  std::string bytes(x.bytes(), '\0');
  x.backend().copy_to_host(x, bytes.data());
  return std::hash<std::string>()(bytes);
}

/// The outcome of many ranks, which tell at the same time.
class Gathering {
 public:
  explicit Gathering(int ranks) {
    outcome_.last.resize(ranks);
    outcome_.peak_activations.resize(ranks);
    outcome_.peak_weights.resize(ranks);
    outcome_.peak_total.resize(ranks);
    outcome_.peak.resize(ranks);
    outcome_.live.resize(ranks);
  }
  void tell(int rank, RunResult result, int plan, Engine& engine) {
    std::lock_guard lock(mutex_);
    for (auto& [stage, store] : engine.stores())
      outcome_.hashes[{plan, stage, rank}] = hash_of(store.versions().at(store.newest()));
    outcome_.losses.merge(result.losses);
    outcome_.norms.merge(result.norms);
    outcome_.last[rank] = std::move(result);
  }
  void tell(int rank, Engine& engine) {
    std::lock_guard lock(mutex_);
    const MemoryMeter& meter = engine.device()->meter();
    outcome_.peak_activations[rank] = meter.peak(Category::activations);
    outcome_.peak_weights[rank] = meter.peak(Category::weights);
    outcome_.peak_total[rank] = meter.peak();
    for (int i = 0; i < category_count; ++i) {
      auto category = static_cast<Category>(i);
      outcome_.peak[rank][category] = meter.peak(category);
      outcome_.live[rank][category] = meter.live(category);
    }
    for (auto& [stage, store] : engine.stores())
      outcome_.weights[{rank, stage}] = to_host(store.versions().at(store.newest()));
  }
  Outcome& outcome() { return outcome_; }

 private:
  std::mutex mutex_;
  Outcome outcome_;
};

void run_rank(const Training& training, const std::vector<VerifiedPlan>& plans, Batches& batches,
              Transport& transport, const DevicePtr& device, const Engine::Settings& settings,
              Gathering& gathering, const Bits& bits = {}, const Course& course = {}) {
  Engine engine(training, transport, device, settings);
  for (int i = 0; i < static_cast<int>(plans.size()); ++i) {
    gathering.tell(transport.rank(), engine.run(plans[i], batches, course), i, engine);
    engine.set_bits(bits);
  }
  gathering.tell(transport.rank(), engine);
}

}  // namespace

Outcome run_by_engine(const Training& training, const std::vector<VerifiedPlan>& plans,
                      Batches& batches, int capacity, AllReduce reduction,
                      const std::vector<int>& hosts, const Bits& bits, const TakeSeat& take_seat) {
  int ranks = plans.front().plan().ranks();
  Gathering gathering(ranks);
  auto body = [&](Transport& transport) {
    set_compute_threads(1);
    const Seat seat = take_seat ? take_seat(transport) : Seat{cpu_device(), nullptr};
    run_rank(training, plans, batches, seat.transport ? *seat.transport : transport, seat.device,
             {reduction, 20, hosts}, gathering, bits);
  };
  run_ranks(ranks, body, capacity);
  return std::move(gathering.outcome());
}

Outcome run_endless(const Training& training, const VerifiedPlan& plan, Batches& batches,
                    const Course& course, int capacity) {
  Gathering gathering(plan.plan().ranks());
  auto body = [&](Transport& transport) {
    set_compute_threads(1);
    run_rank(training, {plan}, batches, transport, cpu_device(), {.timeout = 20}, gathering, {},
             course);
  };
  run_ranks(plan.plan().ranks(), body, capacity);
  return std::move(gathering.outcome());
}

Outcome run_on_one_rank(const Training& training, const std::vector<VerifiedPlan>& plans,
                        Batches& batches, const DevicePtr& device) {
  ThreadsWorld world(1);
  Gathering gathering(1);
  run_rank(training, plans, batches, world.transport(0), device, {.timeout = 20}, gathering);
  return std::move(gathering.outcome());
}

Outcome run_serially(const Training& training, const std::vector<VerifiedPlan>& plans,
                     Batches& batches, AllReduce reduction, const std::vector<int>& hosts,
                     const Bits& bits, const DevicePtr& device) {
  set_compute_threads(1);
  const Plan& first = plans.front().plan();
  Serial serial(training, first.ranks(), device ? device : cpu_device(), reduction, hosts);
  Outcome outcome;
  for (const VerifiedPlan& plan : plans) {
    outcome.losses.merge(serial.run(plan, batches));
    serial.set_bits(bits);
  }
  const auto held = held_stages(first);
  for (int rank = 0; rank < first.ranks(); ++rank)
    for (int stage : held[rank]) {
      Tensor weights = serial.weights(rank, stage);
      Range kept = first.sharded == 3 ? shard_of(first, stage, rank).range(weights.numel())
                                      : Range{0, weights.numel()};
      outcome.weights[{rank, stage}] = to_host(weights.window(kept.begin, {kept.size()}));
    }
  return outcome;
}

}  // namespace plangrad::tests
