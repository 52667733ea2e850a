// The engine on devices gives the bits of the serial interpreter on one of them, staged and by
// NCCL.
// Not here: what is the CPU's (tests/examples/device_runs_test.cpp). Chapters 04 and 05.

#include "cuda/backend/cuda_backend.h"
#include "cuda/devices.h"
#include "parallel/plan/codec_spec.h"
#include "parallel/transports/launch.h"
#include "tests/catch.h"
#include "tests/cuda/machine.h"
#include "tests/error_of.h"
#include "tests/parallel/support/coded_runs.h"
#include "tests/parallel/support/combinations.h"
#include "tests/parallel/support/grid.h"
#include "tests/parallel/support/sharded_run.h"
#include "tests/sanitized.h"

using namespace plangrad;
using namespace plangrad::tests;
using plangrad::cuda::cuda_device;
using plangrad::cuda::make_transport;

namespace {

TakeSeat seats(bool by_nccl) {
  return [by_nccl](Transport& inner) {
    const DevicePtr device = device_of(inner.rank());
    return Seat{device, make_transport(inner, device, by_nccl, 20)};
  };
}

/// Both transports of devices, against the serial interpreter.
void check_same_bits(const Training& training, const std::vector<VerifiedPlan>& plans,
                     AllReduce reduction = AllReduce::scatter_reduce) {
  SmallBatches batches(small_gpt());
  Machine machine({.schedule = QueueSchedule::eager});
  const Outcome serial = run_serially(training, plans, batches, reduction, {}, {}, cuda_device());
  for (bool by_nccl : nccl_choices(plans[0].plan().ranks())) {
    CAPTURE(by_nccl);
    const Outcome parallel =
        run_by_engine(training, plans, batches, 0, reduction, {}, {}, seats(by_nccl));
    check_same_bits(parallel, serial);
  }
}

}  // namespace

TEST_CASE("device engine: schedules give the bits of the serial interpreter") {
  // Width, stages, microbatches; recomputation, clipping, tied ends, SGD.
  const std::vector<Case> cases{{"1f1b", 2, 2, 2, false, true, true, false},
                                {"data", 3, 1, 2, false, true, false, false},
                                {"pipedream", 2, 2, 2, false, false, true, true},
                                {"2bw", 1, 4, 4, true, true, false, false},
                                {"gpipe", 2, 2, 3, true, true, true, false},
                                {"2bw", 2, 2, 2, false, true, true, false}};
  for (const Case& c : fewer(cases, 2)) {
    INFO(c);
    check_same_bits(training_of(c), plans_of(c.schedule, layout_of(c, 1), 2));
  }
}

TEST_CASE("device engine: combinations of choices give the bits of the serial interpreter") {
  // The stride has no divisor in common with the numbers of choices, so each choice is met.
  const std::vector<Combination> all = combinations_of_today();
  for (std::size_t i = 0; i < all.size(); i += sanitized ? 61 : 23) {
    INFO(all[i]);
    Machine machine({.schedule = QueueSchedule::eager});
    CombinedRun run(all[i]);
    const Outcome serial = run.serially(cuda_device());
    for (const bool by_nccl : nccl_choices(run.ranks())) {
      CAPTURE(by_nccl);
      const Outcome parallel = run.by_threads(0, seats(by_nccl));
      check_same_bits(parallel, serial);
    }
  }
}

TEST_CASE(
    "device engine: ZeRO, codecs and cyclic schedules give the bits of the serial interpreter") {
  auto check = [](const char* schedule, const Layout& layout, bool clip, DType dtype = DType::f32) {
    CAPTURE(schedule, layout.zero, print(layout.codec), print(layout.channel), layout.gap);
    Training training = training_of({schedule, 1, layout.stages, 1, false, clip, false, false});
    training.dtype = dtype;
    check_same_bits(training, plans_of(schedule, layout));
  };
  Layout data{.width = 3, .microbatches = 2, .steps = 2, .clip = true};
  for (int zero : fewer<int>({3, 2, 1}, 1)) {
    data.zero = zero;
    check("data", data, true, zero == 1 ? DType::bf16 : DType::f32);
  }
  Layout pipeline{.stages = 2, .width = 2, .microbatches = 2, .steps = 2};
  for (const char* codec : {"quantize:4", "lowrank:2", "topk:0.25"}) {
    pipeline.codec = parse_codec(codec);
    pipeline.channel = parse_codec(codec == std::string("quantize:4") ? "quantize:8" : "none");
    if (!sanitized || codec == std::string("quantize:4")) check("2bw", pipeline, false);
  }
  for (Setting setting : fewer<Setting>({Setting::zero, Setting::model, Setting::pipeline}, 1))
    check("cyclic-v2", {.stages = 2, .steps = 2, .setting = setting}, false);
}

namespace {

/// Has no inputs for one microbatch.
class BrokenBatches : public SmallBatches {
 public:
  BrokenBatches() : SmallBatches(small_gpt()) {}
  Tensor inputs(int micro, const DevicePtr& device) override {
    PG_CHECK(micro != 3, "the file is empty");
    return SmallBatches::inputs(micro, device);
  }
};

}  // namespace

TEST_CASE(
    "device engine: with sums by NCCL replicas have the same bits, and know what it can't do") {
  if (!nccl_works(4)) SKIP_TEST("NCCL needs four devices");
  auto run = [](const char* schedule, const Layout& layout, DType dtype = DType::f32) {
    Training training =
        training_of({schedule, 1, layout.stages, 1, false, false, layout.tied, false});
    training.dtype = dtype;
    SmallBatches batches(small_gpt(layout.tied));
    Machine machine({.schedule = QueueSchedule::eager});
    return run_by_engine(training, plans_of(schedule, layout, 2), batches, 0,
                         AllReduce::by_transport, {}, {}, seats(/*by_nccl*/ true));
  };
  Layout layout{.stages = 2, .width = 2, .microbatches = 2, .steps = 2, .tied = true};
  const std::vector<std::pair<const char*, DType>> cases{
      {"2bw", DType::f32}, {"1f1b", DType::bf16}, {"data", DType::f32}};
  for (const auto& [schedule, dtype] : fewer(cases, 2)) {
    CAPTURE(schedule);
    const Outcome outcome = run(schedule, layout, dtype);
    std::map<std::pair<int, int>, std::set<std::size_t>> different;  // by plan and stage
    for (const auto& [place, hash] : outcome.hashes)
      different[{std::get<0>(place), std::get<1>(place)}].insert(hash);
    CHECK(different.size() == 2 * 3);  // with the tied stage
    for (const auto& [place, hashes] : different) CHECK(hashes.size() == 1);
  }
  layout.codec = parse_codec("quantize:4");
  CHECK_THROWS_WITH(run("2bw", layout), Contains("--reduction nccl: NCCL sums up gradients as "));
}

TEST_CASE("device engine: with ZeRO NCCL sums and gathers shards, which trains as without") {
  if (!nccl_works(4)) SKIP_TEST("NCCL needs four devices");
  // Level, ranks, stages, microbatches, clipping: 2, 3 and 4 do not divide the stages' parameters.
  const std::vector<Form> forms{{1, 3, 2, 2, true},
                                {2, 4, 2, 1, false},
                                {3, 3, 2, 2, true},
                                {3, 2, 1, 1, false, true},
                                {1, 4, 1, 1, false, false, DType::bf16}};
  for (const Form& form : fewer(forms, 2)) {
    INFO(form);
    SmallBatches batches(odd_gpt());
    Machine machine({.schedule = QueueSchedule::random});
    auto run = [&](AllReduce reduction) {
      return run_by_engine(training_of(form), plans_of(form), batches, 0, reduction, {}, {},
                           seats(/*by_nccl*/ true));
    };
    const Outcome lists = run(AllReduce::scatter_reduce), nccl = run(AllReduce::by_transport);
#if defined(CUDA_EMULATOR)  // adds in the order of ranks, as lists do
    check_same_bits(nccl, lists);
#endif
    for (std::size_t rank = 0; rank < nccl.last.size(); ++rank)
      CHECK(nccl.last[rank].bytes_sent == lists.last[rank].bytes_sent);
    if (form.zero == 3) continue;  // each has its own shard
    for (const auto& [place, weights] : nccl.weights)
      CHECK(weights == nccl.weights.at({0, place.second}));
  }
}

TEST_CASE("device engine: a transport without sums of its own says so") {
  const Case c{"data", 2, 1, 1, false, false, false, false};
  SmallBatches batches(small_gpt());
  CHECK_THROWS_WITH(run_by_engine(training_of(c), plans_of(c.schedule, layout_of(c, 1)), batches, 0,
                                  AllReduce::by_transport),
                    Contains("the transport threads has no sums of its own"));
}

#if defined(CUDA_EMULATOR)
namespace {

/// Rank 0 queues a note behind the inputs of microbatch 2. Rank 1 looks for it once the message of
/// microbatch 0 is there.
class NotedBatches : public SmallBatches {
 public:
  NotedBatches() : SmallBatches(small_gpt()) { backend_of(note_.device()).synchronize(); }
  Tensor inputs(int micro, const DevicePtr& device) override {
    if (micro == 2) device->backend().fill(1, note_);
    is_queued = is_queued || micro == 2;
    return SmallBatches::inputs(micro, device);
  }
  Tensor targets(int micro, const DevicePtr& device) override {
    if (micro == 0) {
      backend_of(note_.device()).use();
      const cuda::Stream apart(cuda::Stream::urgent);  // waits for no kernel
      PG_CUDA(cudaMemcpyAsync(&found, note_.raw(), sizeof found, cudaMemcpyDeviceToHost, apart));
      PG_CUDA(cudaStreamSynchronize(apart));
      backend_of(device).use();
      has_looked = true;
    }
    return SmallBatches::targets(micro, device);
  }
  std::atomic<bool> is_queued = false, has_looked = false;
  float found = -1;

 private:
  const Tensor note_ = full({1}, 0, DType::f32, device_of(0));
};

/// Starts rank 0's first message when the note is queued, and the second when rank 1 has looked.
class LateMessages : public TransportAround {
 public:
  LateMessages(std::unique_ptr<Transport> inner, NotedBatches& batches)
      : TransportAround(*inner), owned_(std::move(inner)), batches_(batches) {}
  void prepare(const Connections& all) override { inner_.prepare(all); }
  std::unique_ptr<Request> send(const Message& message) override {
    if (message.channel == plan_channel && rank() == 0) {
      const std::atomic<bool>& awaited = sent_++ ? batches_.has_looked : batches_.is_queued;
      for (Deadline deadline(20); !awaited && deadline.left() > 0;) std::this_thread::yield();
      PG_CHECK(awaited, "the other rank has not come in 20 s");
    }
    return TransportAround::send(message);
  }

 private:
  const std::unique_ptr<Transport> owned_;
  NotedBatches& batches_;
  int sent_ = 0;
};

}  // namespace

namespace {

/// The waits of a rank's host for its device, of an update of four replicas.
double waits_of_an_update(const CodedRun& coded, bool by_nccl) {
  auto waits = [&](int steps) {
    Machine machine({.schedule = QueueSchedule::lazy});
    SmallBatches batches(coded_gpt(false));
    const std::int64_t before = cuda::emulator::host_waits();
    run_by_engine(training_of(coded), plans_of(coded.schedule, layout_of(coded, steps)), batches, 0,
                  reductions().at(coded.reduction), {}, {}, seats(by_nccl));
    return static_cast<double>(cuda::emulator::host_waits() - before);
  };
  return (waits(6) - waits(2)) / 4 / 4;
}

}  // namespace

TEST_CASE("device engine: an update waits for its norm and its losses, and for no compressed sum") {
  for (const bool by_nccl : {false, true})
    for (const char* codec : {"none", "bf16", "quantize:4"}) {
      CAPTURE(by_nccl, codec);
      CHECK(waits_of_an_update({.schedule = "data", .codec = codec, .clip = true}, by_nccl) <= 2);
    }
}

TEST_CASE("device engine: a message waits for no kernel that is queued after it was posted") {
  const Case c{"gpipe", 1, 2, 3, false, false, false, false};
  for (const bool by_nccl : {false, true}) {
    CAPTURE(by_nccl);
    Machine machine({.schedule = QueueSchedule::lazy});
    NotedBatches batches;
    run_by_engine(training_of(c), plans_of(c.schedule, layout_of(c, 1)), batches, 0,
                  AllReduce::scatter_reduce, {}, {}, [&](Transport& inner) {
                    Seat seat = seats(by_nccl)(inner);
                    seat.transport =
                        std::make_unique<LateMessages>(std::move(seat.transport), batches);
                    return seat;
                  });
    CHECK(batches.found == 0);
  }
}

TEST_CASE("device engine: a rank whose device is full says what it asked for") {
  const Case c{"1f1b", 1, 2, 2, false, true, false, false};
  const Training training = training_of(c);
  SmallBatches batches(small_gpt());
  Machine machine({.device_bytes = 150'000, .schedule = QueueSchedule::eager});
  const std::string report = error_of([&] {
    run_by_engine(training, plans_of(c.schedule, layout_of(c, 2)), batches, 0,
                  AllReduce::scatter_reduce, {}, {}, seats(false));
  });
  CHECK_THAT(report, Matches("rank [01]: cudaMallocAsync: out of memory: CUDA device [01] has no "
                             "[0-9]+ bytes left beside the [0-9]+ in use; use a smaller "
                             "model, batch or context, or more devices(\n(.|\n)*)?"));
}
#endif

TEST_CASE("device engine: a rank that throws ends the run, and every rank reports") {
  const Case c{"1f1b", 2, 2, 2, false, true, false, false};
  const Training training = training_of(c);
  Layout layout = layout_of(c, 2);
  std::vector<std::tuple<bool, AllReduce, int>> ways;
  for (bool by_nccl : nccl_choices(4)) {
    ways.emplace_back(by_nccl, AllReduce::scatter_reduce, 0);
    if (by_nccl)
      for (int zero : {0, 1}) ways.emplace_back(true, AllReduce::by_transport, zero);
  }
  for (const auto& [by_nccl, reduction, zero] : ways) {
    CAPTURE(by_nccl, int(reduction), zero);
    layout.zero = zero;
    const auto plans = plans_of(c.schedule, layout);
    Machine machine({.schedule = QueueSchedule::lazy, .silent_aborts = 0.5});
    BrokenBatches batches;
    const std::string report = error_of([&, by_nccl = by_nccl, reduction = reduction] {
      run_by_engine(training, plans, batches, 0, reduction, {}, {}, seats(by_nccl));
    });
    CHECK_THAT(report, StartsWith("rank 2: the file is empty\n"));
    for (int rank : {0, 1, 3})
      CHECK_THAT(report, Contains(text("\nrank ", rank, ": ")) && Contains("stopped by rank 2"));
  }
}

namespace {

/// Has no inputs for microbatch 1 until somebody has given up waiting for its rank.
class LateBatches : public SmallBatches {
 public:
  LateBatches() : SmallBatches(small_gpt()) {}
  Tensor inputs(int micro, const DevicePtr& device) override {
    for (Deadline deadline(20); micro == 1 && !given_up && deadline.left() > 0;)
      std::this_thread::yield();
    return SmallBatches::inputs(micro, device);
  }
  std::atomic<bool> given_up = false;
};

}  // namespace

TEST_CASE("device engine: NCCL's sums and gathers say which rank is late, and where it was") {
  if (!nccl_works(2)) SKIP_TEST("NCCL needs two devices");
  const Case c{"data", 2, 2, 1, false, false, false, false};
  const Training training = training_of(c);
  Layout layout = layout_of(c, 1);
  for (const auto& [zero, awaited] :
       {std::pair(0, "1Rv1@0"), {1, "1Rv1@0"}, {2, "1Rv1@0"}, {3, "1Gwv0@0"}}) {
    CAPTURE(zero);
    layout.zero = zero;
    const auto plans = plans_of(c.schedule, layout);
    Machine machine({.schedule = QueueSchedule::eager});
    LateBatches batches;
    auto body = [&](Transport& inner) {
      const Seat seat = seats(/*by_nccl*/ true)(inner);
      Engine engine(training, *seat.transport, seat.device, {AllReduce::by_transport, 0.5});
      try {
        engine.run(plans[0], batches);
      } catch (...) {
        batches.given_up = true;
        throw;
      }
    };
    CHECK_THROWS_WITH(run_ranks(2, body),
                      StartsWith("rank 0: waited ") &&
                          Contains(text(" s for ", awaited, " of rank 1; rank 1 was at 0F1v0")));
  }
}

TEST_CASE("device engine: between plans shards are gathered by NCCL, and a late rank is reported") {
  if (!nccl_works(2)) SKIP_TEST("NCCL needs two devices");
  const Form form{3, 2, 1};
  const Training training = training_of(form);
  const auto plans = plans_of(form);
  SmallBatches batches(odd_gpt());
  Machine machine({.schedule = QueueSchedule::lazy});
  std::vector<std::vector<double>> whole(2), shards(2);
  auto body = [&](Transport& inner) {
    const Seat seat = seats(/*by_nccl*/ true)(inner);
    Engine engine(training, *seat.transport, seat.device, {AllReduce::by_transport, 0.5});
    engine.run(plans[0], batches);
    const int rank = inner.rank();
    const WeightStore& store = engine.stores().at(0);
    const Tensor& shard = store.versions().at(store.newest());
    auto gather = [&] {
      return engine.gathered(shard, store.parameters().numel(), store.shard(), {0, 1});
    };
    shards[rank] = to_host(shard);
    whole[rank] = to_host(gather());
    for (Deadline deadline(20); rank == 1 && !seat.transport->failure(); std::this_thread::yield())
      PG_CHECK(deadline.left() > 0, "nobody minds");
    if (rank == 0) gather();
  };
  CHECK_THROWS_WITH(run_ranks(2, body),
                    StartsWith("rank 0: waited 0.5 s for the other ranks of a collective"));
  std::vector<double> expected = shards[0];
  expected.insert(expected.end(), shards[1].begin(), shards[1].end());
  CHECK(shards[0].size() != shards[1].size());
  CHECK(whole == std::vector(2, expected));
}
