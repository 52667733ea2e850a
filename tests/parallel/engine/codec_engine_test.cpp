// Plans whose sums of gradients are encoded, by the engine: the bits of the serial interpreter, and
// replicas that stay the same.
// Not here: encoded activations (channel_engine_test), which combinations are refused
// (tests/examples/codec_table_test).

#include "autograd/cpu/cpu_backend.h"
#include "parallel/session/saving.h"
#include "parallel/transports/threads_transport.h"
#include "tests/catch.h"
#include "tests/parallel/support/coded_runs.h"
#include "tests/sanitized.h"

using namespace plangrad::tests;

namespace {

const std::vector<std::string> local{"quantize:4", "quantize:3:64:stochastic", "topk:0.1",
                                     "threshold:0.1:3", "bf16"};
const std::vector<std::string> of_groups{"lowrank:2", "pca:2:2"};

/// Each run with each codec.
std::vector<CodedRun> with_codecs(const std::vector<CodedRun>& plain,
                                  const std::vector<std::string>& codecs) {
  std::vector<CodedRun> runs;
  for (const CodedRun& run : plain)
    for (const std::string& codec : codecs) {
      runs.push_back(run);
      runs.back().codec = codec;
    }
  return fewer(runs);
}

std::vector<std::string> all_codecs() {
  std::vector<std::string> all = local;
  all.insert(all.end(), of_groups.begin(), of_groups.end());
  return all;
}

/// A group makes the sums.
std::vector<CodedRun> group_runs() {
  std::vector<CodedRun> runs;
  for (const char* schedule : {"data", "gpipe", "1f1b", "2bw", "pipedream"})
    for (const auto& [reduction, how] : reductions())
      runs.push_back({.schedule = schedule, .reduction = reduction});
  for (std::size_t i = 0; i < runs.size(); ++i) runs[i].clip = i % 3 == 0, runs[i].tied = i % 2;
  for (int zero : {1, 2, 3})
    for (const char* reduction : {"scatter", "ring"})
      runs.push_back({.schedule = "data", .reduction = reduction, .zero = zero, .clip = zero == 2});
  for (const char* schedule : {"gpipe", "1f1b", "2bw", "pipedream"})
    runs.push_back({.schedule = schedule, .zero = 1});
  return runs;
}

/// Sums go from rank to rank.
std::vector<CodedRun> passing_runs() {
  std::vector<CodedRun> runs;
  for (Setting setting : {Setting::data, Setting::model, Setting::zero}) {
    for (bool clip : {false, true})
      runs.push_back({.schedule = "cyclic-v1", .setting = setting, .clip = clip});
    runs.push_back({.schedule = "cyclic-v2", .setting = setting});
  }
  for (const char* schedule : {"cyclic-v1", "cyclic-v2"})
    runs.push_back({.schedule = schedule, .tied = true});
  return runs;
}

/// Two plans of two steps, over channels with room and without, in turn.
void check_same(const std::vector<CodedRun>& runs, const std::vector<std::string>& codecs) {
  int number = 0;
  std::map<std::string, std::map<int, double>> plain_losses;  // by run: many codecs share one
  for (const CodedRun& run : with_codecs(runs, codecs)) {
    INFO(run);
    CodedRun plain = run;
    plain.codec = "none";
    std::map<int, double>& without_codec = plain_losses[text(plain)];
    if (without_codec.empty()) without_codec = serially(plain, 2, 2).losses;
    const Outcome serial = serially(run, 2, 2);
    const Outcome parallel = by_engine(run, 2, 2, number++ % 2 * 2);
    check_same_bits(parallel, serial);
    CHECK(parallel.losses != without_codec);
    for (const auto& [micro, loss] : parallel.losses) CHECK(std::isfinite(loss));
  }
}

/// After each of three plans of a step, all ranks that have a stage have the same weights of it.
void check_replicas(const std::vector<CodedRun>& runs, const std::vector<std::string>& codecs) {
  for (const CodedRun& run : with_codecs(runs, codecs)) {
    if (run.zero == 3 || run.setting == Setting::zero) continue;  // one rank has them
    INFO(run);
    std::map<std::pair<int, int>, std::size_t> first;  // by (plan, stage)
    int compared = 0;
    for (const auto& [where, hash] : by_engine(run, 3, 1).hashes) {
      const auto& [plan, stage, rank] = where;
      auto [known, is_first] = first.insert({{plan, stage}, hash});
      CHECK(hash == known->second);
      compared += !is_first;
    }
    CHECK(compared > 0);
  }
}

}  // namespace

TEST_CASE("encoded sums of groups: engine and serial interpreter have the same bits", "[codec]") {
  check_same(group_runs(), all_codecs());
}

TEST_CASE("encoded sums that are passed on: engine and serial interpreter have the same bits",
          "[codec]") {
  check_same(passing_runs(), local);
}

TEST_CASE("sums with bits of each layer: engine and serial interpreter have the same bits",
          "[codec]") {
  const Bits bits{{"wte.weight", 7},
                  {"h.0.attn.c_attn.weight", 1},
                  {"h.0.mlp.c_fc.weight", 5},
                  {"h.1.attn.c_proj.weight", 2},
                  {"h.1.mlp.c_proj.weight", 8}};
  std::vector<CodedRun> runs{{.schedule = "data", .zero = 2, .clip = true},
                             {.schedule = "data", .reduction = "hierarchical"},
                             {.schedule = "2bw", .reduction = "ring", .tied = true},
                             {.schedule = "cyclic-v1", .clip = true},
                             {.schedule = "cyclic-v2", .setting = Setting::zero}};
  for (CodedRun& run : runs) {
    INFO(run);
    run.codec = "adaptive:64";
    const Outcome uniform = by_engine(run, 2, 2);
    run.bits = bits;
    const Outcome serial = serially(run, 2, 2), parallel = by_engine(run, 2, 2);
    check_same_bits(parallel, serial);
    const bool weights_of_4_bits = parallel.weights == uniform.weights;
    CHECK_FALSE(weights_of_4_bits);
  }
}

TEST_CASE("encoded sums: replicas have the same weights after every step", "[codec]") {
  check_replicas(group_runs(), all_codecs());
  check_replicas(passing_runs(), local);
}

TEST_CASE("a checkpoint's thresholds belong to a reduction and its hosts, too", "[codec]") {
  const Training training = training_of(CodedRun{.schedule = "data"});
  const Plan plan = make_plan("data", {.width = 2});
  ThreadsWorld world(1);
  auto layout = [&](const Engine::Settings& settings) {
    return codec_layout(Engine(training, world.transport(0), cpu_device(), settings), plan);
  };
  CHECK(layout({}) == layout({.timeout = 5}));
  CHECK(layout({}) != layout({.reduction = AllReduce::ring}));
  const AllReduce by_hosts = reductions().at("hierarchical");
  CHECK(layout({.reduction = by_hosts, .hosts = {0, 0, 1, 1}}) !=
        layout({.reduction = by_hosts, .hosts = {0, 1, 0, 1}}));
}
