// What codecs left out, from one layout to another, element by element: nothing is lost when it is
// read, and all of it is sent.
// Not here: whole runs that stop and go on (tests/examples/codec_runs_test).
#include "parallel/session/saving.h"

#include "autograd/cpu/cpu_backend.h"
#include "parallel/transports/launch.h"
#include "tests/catch.h"
#include "tests/numbers.h"
#include "tests/parallel/support/coded_runs.h"
#include "tests/sanitized.h"
#include "tests/temporary_folder.h"

using namespace plangrad::tests;
using nlohmann::json;

namespace {

namespace fs = std::filesystem;

/// All that is left out, by parameter.
struct Left {
  std::map<std::string, Numbers> sums;  ///< over ranks
  double most = 0;                      ///< the largest element of any rank
};

double largest(const Numbers& x) {
  double most = 0;
  for (double value : x) most = std::max(most, std::abs(value));
  return most;
}

void add_left(Engine& engine, Left& left) {
  for (auto& [stage, codec] : engine.codecs())
    for (const Parameter& parameter : engine.parameters(stage)) {
      const std::int64_t count = parameter.shape.numel();
      const Numbers own = to_host(codec.residual().window(parameter.offset, {count}));
      Numbers& sum = left.sums[parameter.name];
      sum.resize(count);
      for (std::int64_t i = 0; i < count; ++i) sum[i] += own[i];
      left.most = std::max(left.most, largest(own));
    }
}

Plan plan_of(const CodedRun& run, int first) {
  Layout layout = layout_of(run, 2);
  layout.first = first;
  return make_plan(run.schedule, layout);
}

/// Trains two steps, and saves what a checkpoint has.
Left saved(const CodedRun& run, const fs::path& folder) {
  const Plan plan = plan_of(run, 0);
  const VerifiedPlan verified = verify(plan);
  const Training training = training_of(run);
  SmallBatches batches(coded_gpt(run.tied));
  std::mutex mutex;
  std::vector<CheckpointFile> files;
  json codec{{"numbers", json::array()}};
  Left left;
  run_ranks(plan.ranks(), [&](Transport& transport) {
    set_compute_threads(1);
    Engine engine(training, transport, cpu_device(), {.timeout = 20});
    engine.run(verified, batches);
    std::vector<CheckpointFile> own;
    write_codec_state(engine, plan, write_at_once(folder, 2, own));
    std::lock_guard lock(mutex);
    files.insert(files.end(), own.begin(), own.end());
    codec["layout"] = codec_layout(engine, plan);
    codec["numbers"].push_back(codec_numbers(engine));
    add_left(engine, left);
  });
  commit_checkpoint(folder, 2, {{"codec", codec}}, files);
  return left;
}

/// What is left out as the run goes on in this layout, and after two steps of it.
std::pair<Left, Left> resumed(const CodedRun& run, const fs::path& folder) {
  const Plan plan = plan_of(run, 2);
  const VerifiedPlan verified = verify(plan);
  const Training training = training_of(run);
  SmallBatches batches(coded_gpt(run.tied));
  std::mutex mutex;
  std::pair<Left, Left> left;
  run_ranks(plan.ranks(), [&](Transport& transport) {
    set_compute_threads(1);
    Engine engine(training, transport, cpu_device(), {.timeout = 20});
    engine.prepare(plan);
    read_codec_state(Checkpoint(folder), engine, plan);
    {
      std::lock_guard lock(mutex);
      add_left(engine, left.first);
    }
    engine.run(verified, batches);
    std::lock_guard lock(mutex);
    add_left(engine, left.second);
  });
  return left;
}

/// In which sums are made in other ways than in the first.
std::vector<CodedRun> layouts() {
  std::vector<CodedRun> runs{{.schedule = "data"}, {.schedule = "2bw"}};
  for (int zero : {1, 2, 3}) runs.push_back({.schedule = "data", .zero = zero});
  runs.push_back({.schedule = "data", .reduction = "ring", .zero = 2});
  runs.push_back({.schedule = "1f1b", .zero = 1});
  for (const char* schedule : {"cyclic-v1", "cyclic-v2"})
    for (Setting setting : {Setting::data, Setting::model, Setting::zero})
      runs.push_back({.schedule = schedule, .setting = setting});
  return runs;
}

}  // namespace

TEST_CASE("a residual is all there and is all sent in every layout that goes on with it",
          "[codec]") {
  TemporaryFolder folder;
  const Left before = saved({.schedule = "data", .codec = "topk:0.01"}, folder.path);
  for (CodedRun run : layouts()) {
    run.codec = "topk:1";  // leaves nothing out of what it encodes
    INFO(run);
    const double scale = plan_of(run, 2).per_step / 8.0;
    const auto [read, after] = resumed(run, folder.path);
    const std::string said =
        lost_residual(Checkpoint(folder.path), plan_of(run, 2), training_of(run));
    double lost = 0;
    for (const auto& [name, values] : before.sums) {
      INFO(name);
      const auto found = read.sums.find(name);
      // A stage that stays on one rank has sums that are not encoded.
      const bool told = said.find(" " + name) != std::string::npos;
      CHECK(told == (found == read.sums.end() && largest(values) > 0));
      if (found == read.sums.end()) continue;
      for (std::size_t i = 0; i < values.size(); ++i)
        lost = std::max(lost, std::abs(scale * values[i] - found->second[i]));
    }
    CHECK(before.most > 0);
    // Of each of four ranks' elements: a product, and up to three sums of up to four.
    CHECK(lost <= 0x1p-24 * (4 + 2 + 3 + 4) * scale * before.most);
    CHECK(after.most == 0);
  }
}
