// Every pair of schedule, codec, reduction, ZeRO and codec of activations: it trains, or it is
// refused by name. Here flags become plans as in a program, without a process for each.
// Not here: the numbers that such runs get to (tests/parallel/).

#include "autograd/cpu/cpu_backend.h"
#include "examples/programs/run_layout.h"
#include "nn/models/gpt.h"
#include "parallel/engine/engine.h"
#include "parallel/transports/launch.h"
#include "tests/catch.h"
#include "tests/parallel/support/ordinary_schedules.h"

using namespace plangrad::examples;
using namespace plangrad::parallel;
using plangrad::tests::is_cyclic;

namespace {

/// A block of width 16, whose large matrices, and the table, have 1024 elements.
const GptConfig config{1, 1, 16, 4, 64, 0, true};

/// The same tokens for everybody.
class Tokens : public Batches {
 public:
  Shape shape(int) const override { return {1, config.context}; }
  Tensor inputs(int micro, const DevicePtr& device) override { return row(micro, device); }
  Tensor targets(int micro, const DevicePtr& device) override { return row(micro + 1, device); }

 private:
  Tensor row(int number, const DevicePtr& device) const {
    std::vector<std::int32_t> ids(config.context, number % config.vocabulary);
    return from_host(ids, {1, config.context}, device);
  }
};

/// What a row of the table asks for; a setting where the schedule is cyclic.
struct Entry {
  std::string schedule, setting = "", codec = "none", reduction = "scatter", channel = "none";
  int zero = 0;
  bool tied = false;
};

std::ostream& operator<<(std::ostream& out, const Entry& e) {
  return out << e.schedule << ' ' << e.setting << " --codec " << e.codec << " --reduction "
             << e.reduction << " --zero " << e.zero << " --codec-channel " << e.channel
             << (e.tied ? "" : " --untied");
}

/// Schedules alone: those that put two stages on two ranks, or all on one. With more stages, others
/// are tried in tests/parallel/engine/chunked_engine_test.cpp.
std::vector<Entry> orders() {
  std::vector<Entry> all;
  for (bool tied : {false, true})
    for (const Schedule* each : schedules()) {
      if (!each->cyclic && each->chunks < 2) all.push_back({.schedule = each->name, .tied = tied});
      if (each->cyclic)
        for (const auto& [setting, value] : settings())
          all.push_back({.schedule = each->name, .setting = setting, .tied = tied});
    }
  return all;
}

/// The whole table for one of them.
std::vector<Entry> table(Entry e) {
  std::vector<Entry> all;
  for (const char* codec : {"none", "bf16", "quantize:4", "adaptive", "topk:0.1", "threshold:0.1",
                            "lowrank:2", "pca:2"})
    for (const auto& [reduction, how] : reductions())
      for (int zero : {0, 1, 2, 3})
        for (const char* channel : {"none", "quantize:4"}) {
          e.codec = codec, e.reduction = reduction, e.zero = zero, e.channel = channel;
          all.push_back(e);
        }
  return all;
}

/// Which pairs go together, as the chapters have it. Here is no pair that fails otherwise.
bool goes_together(const Entry& e) {
  const bool cyclic = is_cyclic(e.schedule), staged = !cyclic && e.schedule != "data";
  const bool travels = e.setting == "model" || e.setting == "zero";
  // Replicas sum up in groups, as do the two ends that have a tied table. Cyclic ones pass sums on.
  const bool passes = e.setting == "data" || travels;
  const bool grouped = !cyclic || (e.setting == "pipeline" && e.tied);
  const bool local = e.codec != "lowrank:2" && e.codec != "pca:2";
  const bool sends_activations = staged || e.setting == "pipeline" || e.setting == "model";
  if (e.tied && travels) return false;
  if (e.zero > 0 && (cyclic || (e.zero > 1 && staged))) return false;
  if (e.zero > 0 && e.schedule == "pipedream" && e.tied) return false;  // and clips
  if (e.reduction != "scatter" && !grouped) return false;
  if (e.reduction != "scatter" && e.reduction != "ring" && e.zero > 0) return false;
  if (e.codec != "none" && !grouped && !passes) return false;
  if (!local && !grouped) return false;
  return e.channel == "none" || sends_activations;
}

RunFlags flags_of(const Entry& e) {
  RunFlags run;
  run.batch = 4;
  run.steps = 1;
  run.reduction = e.reduction;
  nlohmann::json flags{
      {"--schedule", e.schedule}, {"--setting", e.setting}, {"--stages", 2},
      {"--zero", e.zero},         {"--codec", e.codec},     {"--codec-channel", e.channel}};
  if (!is_cyclic(e.schedule)) flags["--data-parallel"] = 2;
  run.parts = {saved_spec(flags)};
  return run;
}

/// One step; throws unless all losses are finite.
void train(const RunFlags& run, const RunLayout& layout, bool tied) {
  GptConfig own = config;
  own.tied = tied;
  const Training training = layout.training(gpt(own));
  const Plans::Shared plan = layout.plans()->get(0, 1);
  std::vector<int> hosts;
  for (int rank = 0; rank < layout.ranks(); ++rank) hosts.push_back(rank % 2);
  Tokens tokens;
  std::mutex mutex;
  std::size_t losses = 0;
  run_ranks(layout.ranks(), [&](Transport& transport) {
    set_compute_threads(1);
    Engine engine(training, transport, cpu_device(), {reductions().at(run.reduction), 20, hosts});
    const RunResult result = engine.run(*plan, tokens);
    for (const auto& [micro, loss] : result.losses)
      PG_CHECK(std::isfinite(loss), "microbatch ", micro, " has a loss of ", loss);
    std::lock_guard lock(mutex);
    losses += result.losses.size();
  });
  PG_CHECK(losses == static_cast<std::size_t>(layout.per_step()), losses, " losses");
}

/// Whether a refusal names what is wrong.
bool names_a_flag(const std::string& why) {
  for (const char* name : {"codec", "--reduction", "--zero", "ZeRO", "untie the embeddings"})
    if (why.find(name) != why.npos) return true;
  return false;
}

/// The plan, or why there is none.
std::optional<RunLayout> lay_out(const Entry& e, std::string& refusal) {
  try {
    return RunLayout(flags_of(e), 0, e.tied, 4);
  } catch (const Error& error) {
    refusal = error.what();
    return {};
  }
}

}  // namespace

TEST_CASE("each schedule with each codec, reduction and ZeRO trains or is refused by name",
          "[codec]") {
  int trained = 0, refused = 0;
  for (const Entry& order : orders())
    for (const Entry& e : table(order)) {
      std::string refusal;
      const std::optional<RunLayout> layout = lay_out(e, refusal);
      INFO(e << '\n' << refusal);
      CHECK(layout.has_value() == goes_together(e));
      if (layout)
        CHECK_NOTHROW(train(flags_of(e), *layout, e.tied));
      else
        CHECK(names_a_flag(refusal));
      ++(layout ? trained : refused);
    }
  CHECK(trained > 1000);
  CHECK(refused > 1000);
}
