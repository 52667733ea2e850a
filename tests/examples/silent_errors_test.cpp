// Silent errors: bits that are flipped in weights, in what a rank computes, and in a message are
// found and named; without them, a search changes nothing.
#include "examples/elastic/silent_errors.h"

#include "autograd/cpu/cpu_backend.h"
#include "examples/elastic/rescue.h"
#include "nn/checkpoint/file.h"
#include "parallel/transports/launch.h"
#include "tests/catch.h"
#include "tests/error_of.h"
#include "tests/parallel/support/far_transport.h"
#include "tests/parallel/support/small_session.h"

using namespace plangrad::examples;
using namespace plangrad::tests;
using nlohmann::json;

namespace {

void flip(void* data) { *static_cast<std::uint32_t*>(data) ^= 1u << 20; }

/// A processor whose products have a wrong bit: those of a forward, or those of a backward that are
/// gradients of weights.
class FaultyBackend : public CpuBackend {
 public:
  explicit FaultyBackend(bool backward) : backward_(backward) {}
  void gemm(Gemm how, In a, In b, In bias, Out c) override {
    CpuBackend::gemm(how, a, b, bias, c);
    if (how.transpose_a == backward_ && c.dtype() == DType::f32) flip(c.raw());
  }

 private:
  const bool backward_;
};

/// A network that flips a bit of each long message that a rank receives.
class FaultyTransport : public FarTransport {
 public:
  using FarTransport::FarTransport;
  std::unique_ptr<Request> receive(const Message& message) override {
    return std::make_unique<Spoilt>(FarTransport::receive(message), message);
  }
  double silence(int) const override { return 0; }

 private:
  struct Spoilt : Request {
    Spoilt(std::unique_ptr<Request> inner, const Message& message)
        : inner(std::move(inner)), message(message) {}
    bool done() override {
      if (over || !inner->done()) return over;
      if (message.bytes > 1000) flip(message.data);
      return over = true;
    }
    std::unique_ptr<Request> inner;
    const Message message;
    bool over = false;
  };
};

/// A fault of rank 1.
enum class Fault { none, weights, forward, backward, message };

/// Returns the error that ranks with this fault report; empty if they find nothing.
std::string said_of(Fault fault, const std::string& schedule, const Layout& layout) {
  std::vector<std::vector<Checksum>> checksums(make_plan(schedule, layout).ranks());
  Training training = small_training(layout.stages, layout.tied);
  run_ranks(static_cast<int>(checksums.size()), [&](Transport& sound) {
    set_compute_threads(1);
    const bool has_fault = sound.rank() == 1;
    FaultyTransport bad(sound);
    Transport& transport = has_fault && fault == Fault::message ? bad : sound;
    DevicePtr device = cpu_device();
    if (has_fault && (fault == Fault::forward || fault == Fault::backward))
      device = std::make_shared<Device>(std::make_shared<FaultyBackend>(fault == Fault::backward));
    const Plan plan = make_plan(schedule, layout);
    Engine engine(training, transport, device, {.timeout = 20});
    engine.prepare(plan);
    if (has_fault && fault == Fault::weights) {
      WeightStore& store = engine.stores().begin()->second;
      flip(store.versions().at(store.newest()).raw());
    }
    SmallBatches batches(small_gpt(layout.tied));
    checksums[transport.rank()] = checksums_of(engine, plan, batches, 0);
  });
  return error_of([&] { compare_checksums(checksums, "after update 8"); });
}

}  // namespace

TEST_CASE("silent errors: flipped bits are named by rank, stage and what they are of",
          "[session]") {
  const Layout pipeline{.stages = 3, .microbatches = 3}, three{.width = 3}, two{.width = 2};
  struct Case {
    Fault fault;
    const char* schedule;
    Layout layout;
    const char* said;
  };
  // [snippet cases]
  const Case cases[] = {
      {Fault::weights, "data", three, "rank 1 has wrong weights of stage 0"},
      {Fault::weights, "data", two, "ranks 0 and 1 have different weights of stage 0"},
      {Fault::forward, "data", three, "rank 1 has wrong loss of stage 0"},
      {Fault::backward, "data", three, "rank 1 has wrong gradients of the weights of stage 0"},
      {Fault::forward, "1f1b", pipeline, "ranks 0 and 1 have different activations of stage 0"},
      {Fault::backward, "1f1b", pipeline,
       "ranks 0 and 1 have different gradients of the weights of stage 0"},
      {Fault::message, "data", two, "the message of rank 0 to rank 1 changed on its way"},
      {Fault::message,
       "1f1b",
       {.stages = 2, .microbatches = 2},
       "ranks 0 and 1 have different weights of stage 0"}};  // which rank 0 has sent to rank 1
  // [end snippet]
  for (const auto& [fault, schedule, layout, said] : cases) {
    CAPTURE(said);
    CHECK_THAT(said_of(fault, schedule, layout),
               StartsWith("--check: a silent error after update 8: " + std::string(said)) &&
                   Contains("resume the last checkpoint, without that machine"));
  }
}

TEST_CASE("silent errors: nothing is found where nothing is wrong", "[session]") {
  CHECK(said_of(Fault::none, "1f1b", {}).empty());
  CHECK(said_of(Fault::none, "1f1b", {.stages = 3, .microbatches = 3, .tied = true}).empty());
  CHECK(said_of(Fault::none, "2bw", {.stages = 2, .width = 2, .microbatches = 2, .tied = true})
            .empty());
  CHECK(said_of(Fault::none, "cyclic-v2", {.stages = 3}).empty());
  for (int zero : {1, 2, 3})
    CHECK(said_of(Fault::none, "data", {.width = 3, .zero = zero}).empty());
}

namespace {

/// The observers of a small session, and one that looks for silent errors.
std::function<Observers()> checking(int every, const std::shared_ptr<Rescue>& rescue = nullptr) {
  return [=] {
    Observers all = observers_of()();
    all.insert(all.end() - 1, std::make_unique<SilentErrors>(every));
    if (rescue) all.insert(all.end() - 1, std::make_unique<Rescuer>(rescue));
    return all;
  };
}

}  // namespace

TEST_CASE("silent errors: a run that looks for them learns the same", "[session]") {
  auto losses = [](int check_every) {
    const RunFolder folder;
    run_sessions(small_training(2), folder, 4, [&](int, SessionSettings& settings) {
      settings.steps = 12;
      settings.observers = checking(check_every);
      settings.plans =
          std::make_shared<Plans>("2bw", Layout{.stages = 2, .width = 2, .microbatches = 2});
    });
    std::vector<double> found;
    std::ifstream lines(folder / "metrics.jsonl");
    for (std::string line; std::getline(lines, line);)
      if (const json entry = json::parse(line); entry.contains("loss"))
        found.push_back(entry["loss"]);
    CHECK(found.size() == 12);
    return found;
  };
  CHECK(losses(0) == losses(4));
}

TEST_CASE("silent errors: a faulty processor ends the run at its first check", "[session]") {
  const RunFolder folder;
  const Training training = small_training(1);
  const auto rescue = std::make_shared<Rescue>();
  auto train = [&] {
    run_ranks(3, [&](Transport& transport) {
      set_compute_threads(1);
      SmallData data;
      SessionSettings settings = settings_of(folder);
      settings.steps = 40;
      settings.observers = checking(3, rescue);
      settings.plans = std::make_shared<Plans>("data", Layout{.width = 3});
      const DevicePtr device = transport.rank() == 2
                                   ? std::make_shared<Device>(std::make_shared<FaultyBackend>(true))
                                   : cpu_device();
      run_session(training, transport, device, data, settings);
    });
  };
  CHECK_THROWS_WITH(train(),
                    Contains("a silent error after update 3: rank 2 has wrong gradients of "
                             "the weights of stage 0"));
  SessionScope scope;
  scope.out = folder.path;
  CHECK(rescue->save({.scope = scope}, training.learning_rate) ==
        "the last updates are not saved, as some weights are wrong");
  CHECK(rescue->newest_save(folder.path) == 0);
}
