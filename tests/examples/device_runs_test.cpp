// Training on devices, emulated ones or GPUs, by threads, processes and NCCL: the CPU's losses
// within a bound, the same bits whatever carries messages, checkpoints that move between devices.
// Not here: kernels and transports (tests/cuda). Chapter 04.

#include <signal.h>

#include <regex>

#include "nn/checkpoint/file.h"
#include "tests/examples/processes.h"
#include "tests/examples/runs.h"
#include "tests/sanitized.h"

#if GPU_TESTS
#include "tests/cuda/machine.h"
#endif

#if GPU_TESTS || EMULATOR_BUILT

using namespace plangrad::tests;

namespace {

#if GPU_TESTS
const Words device{"--device", "cuda"};
#else
const Words device{"--device", "emulator"};
constexpr bool nccl_works(int) { return true; }
#endif
const Words nccl{"--transport", "nccl"}, staged{"--transport", "threads"};
const Words layout{"--layers", "2", "--batch",         "12", "--ranks",    "4",
                   "--stages", "2", "--data-parallel", "2",  "--schedule", "2bw"};

/// On devices, with messages by NCCL if there are enough of them.
Words on_devices() { return device + (nccl_works(4) ? nccl : staged); }

/// A loss goes through about 300 roundings one after the other, its gradient through twice as many,
/// and six updates pass on what they have gathered. Of n roundings, which go either way, the sum
/// grows as sqrt(n) (Higham and Mary 2019). Where rounding changes a gradient by its own size, and
/// with it AdamW's update, the loss hardly depends on that weight.
double rounding(double unit) { return std::sqrt(6 * 900) * unit; }
const double f32_rounding = rounding(std::ldexp(1, -24)),
             bf16_rounding = rounding(std::ldexp(1, -9));

/// Each loss of two runs, in updates and validations.
void check_near(const Runs& runs, const std::string& one, const std::string& two, double bound) {
  const auto a = losses_of(runs.path(one)), b = losses_of(runs.path(two));
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    for (const char* name : {"loss", "validation_loss"})
      if (a[i].contains(name)) {
        CAPTURE(name, a[i].at(name), b[i].at(name));
        CHECK(std::abs(a[i].at(name).get<double>() / b[i].at(name).get<double>() - 1) < bound);
      }
}

}  // namespace

TEST_CASE("devices train as the CPU does") {
  const Runs runs{layout};
  runs.train("cpu");
  runs.train("staged", device);
  check_near(runs, "cpu", "staged", f32_rounding);
  CHECK(summary_of(runs.path("staged"))["peak_bytes"].size() == 4);
}

TEST_CASE("devices train over NCCL as they do with staged messages") {
  if (!nccl_works(4)) SKIP_TEST("NCCL needs four devices");
  const Runs runs{layout};
  runs.train("staged", device);
  runs.train("nccl", device + nccl + Words{"--reduction", "scatter"});
  runs.check_same("nccl", "staged");
}

TEST_CASE("devices shard, encode and compress") {
  const Runs runs{layout};
  // A value that rounds to another of the quantizer's levels changes one update of one weight.
  const double another_level = 2 * 1e-3;
  const std::vector<std::pair<Words, double>> cases{
      {{"--zero", "1"}, f32_rounding},
      {{"--codec", "quantize:4"}, f32_rounding + another_level},
      {{"--prune", "0.5", "--samo"}, f32_rounding},
      {{"--dtype", "bf16"}, bf16_rounding}};
  for (const auto& [flags, bound] : cases) {
    CAPTURE(flags);
    runs.train("cpu", flags);
    runs.train("device", flags + on_devices());
    check_near(runs, "cpu", "device", bound);
    std::filesystem::remove_all(runs.path("cpu"));
    std::filesystem::remove_all(runs.path("device"));
  }
}

TEST_CASE("devices run every schedule as the CPU does") {
  const Words four{"--ranks", "4", "--layers", "2", "--batch", "12"};
  const Words two_by_two = four + Words{"--stages", "2", "--data-parallel", "2"};
  const std::vector<Words> schedules{
      four + Words{"--schedule", "data", "--zero", "3"},
      two_by_two + Words{"--schedule", "gpipe", "--microbatches", "3"},
      two_by_two + Words{"--schedule", "1f1b", "--microbatches", "3"},
      two_by_two + Words{"--schedule", "message-driven", "--microbatches", "3"},
      two_by_two + Words{"--schedule", "pipedream"},
      two_by_two + Words{"--schedule", "2bw", "--recompute"},
      four + Words{"--schedule", "zb-v", "--data-parallel", "2", "--microbatches", "2"},
      four + Words{"--schedule", "dualpipe", "--microbatches", "2", "--zero", "1"},
      two_by_two + Words{"--schedule", "paci", "--recompute", "--untied", "--clip", "0"},
      four + Words{"--schedule", "cyclic-v1", "--setting", "pipeline"},
      four + Words{"--schedule", "cyclic-v2", "--setting", "data"}};
  for (const Words& words : fewer(schedules)) {
    CAPTURE(words);
    const Runs runs{words};
    runs.train("cpu");
    runs.train("device", on_devices());
    check_near(runs, "cpu", "device", f32_rounding);
  }
}

TEST_CASE("devices sum up and gather by NCCL's own collectives") {
  if (!nccl_works(4)) SKIP_TEST("NCCL needs four devices");
  const Runs runs{layout + device + nccl};
  const Words by_nccl{"--reduction", "nccl"};
  runs.check_refused({"--elastic"}, "--elastic: NCCL joins a fixed number of ranks");
  const std::vector<std::pair<Words, double>> cases{
      {{}, f32_rounding},
      {{"--schedule", "1f1b", "--untied"}, f32_rounding},
      {{"--schedule", "data", "--data-parallel", "4"}, f32_rounding},
      {{"--prune", "0.5", "--samo"}, f32_rounding},
      {{"--zero", "1"}, f32_rounding},
      {{"--schedule", "data", "--data-parallel", "4", "--zero", "2", "--dtype", "bf16"},
       bf16_rounding},
      {{"--schedule", "data", "--data-parallel", "4", "--zero", "3", "--prune", "0.5", "--samo"},
       f32_rounding},
      {{"--dtype", "bf16", "--codec-channel", "quantize:8"}, bf16_rounding}};
  for (const auto& [flags, bound] : fewer(cases)) {
    CAPTURE(flags);
    runs.train("scatter", flags + Words{"--reduction", "scatter"});
    runs.train("nccl", flags + by_nccl);
    check_near(runs, "scatter", "nccl", bound);
    CHECK(summary_of(runs.path("nccl"))["bytes_sent"] ==
          summary_of(runs.path("scatter"))["bytes_sent"]);
    for (const char* run : {"scatter", "nccl"}) std::filesystem::remove_all(runs.path(run));
  }
}

TEST_CASE("devices: over NCCL sums are its own where they can be, and a run says so") {
  if (!nccl_works(2)) SKIP_TEST("NCCL needs two devices");
  const Runs runs{Words{"--layers", "3", "--batch", "12", "--ranks", "2"} + device + nccl};
  const std::vector<std::pair<Words, std::string>> cases{
      {{},
       "data on 2 ranks (nccl), 2 replicas of 4 stages; --reduction nccl; --stages 4, so that sums "
       "overlap"},
      {{"--stages", "2", "--data-parallel", "1"},
       "1f1b on 2 ranks (nccl), 1 replica of 2 stages; --reduction nccl"},
      {{"--zero", "1"},
       "data on 2 ranks (nccl), 2 replicas of 4 stages; --reduction nccl; --stages 4, so that"},
      {{"--zero", "2"},
       "data on 2 ranks (nccl), 2 replicas of 1 stage; --reduction nccl; files go to"},
      {{"--zero", "3", "--codec", "quantize:4"},
       "data on 2 ranks (nccl), 2 replicas of 1 stage; --reduction scatter; files go to"},
      {{"--reduction", "ring"}, "data on 2 ranks (nccl), 2 replicas of 1 stage; files go to"}};
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Finished result = succeeded(run(runs.words(std::to_string(i), cases[i].first)));
    CHECK_THAT(result.output + result.errors, Contains(cases[i].second));
  }
  CHECK(summary_of(runs.path("0"))["config"]["reduction"] == "nccl");
  CHECK(summary_of(runs.path("2"))["config"]["reduction"] == "nccl");
  CHECK(summary_of(runs.path("4"))["config"]["reduction"] == "scatter");
}

TEST_CASE("devices: steps that begin as CUDA graphs leave the same run") {
  const Runs runs{layout};
  const Words graphs{"--cuda-graph"};
  runs.check_refused(graphs,
                     "--cuda-graph: the CPU has no CUDA graphs; use --device cuda or emulator");
  runs.check_refused(Words{"--device", "emulator", "--profile"},
                     "--profile: times kernels of --device cpu; the emulator's times say nothing");
  runs.train("without", on_devices());
  runs.train("with", on_devices() + graphs);
  runs.check_same("without", "with");
  runs.train("half", Words{"--stop-after", "3"} + device + graphs);
  runs.resume("half", Words{"--device", "cpu"});  // is no part of what a run must keep
  check_near(runs, "with", "half", f32_rounding);
}

TEST_CASE("devices: sums by NCCL need its transport, plain gradients and a group") {
  if (!nccl_works(4)) SKIP_TEST("NCCL needs four devices");
  const Runs runs{layout};
  const Words by_nccl{"--reduction", "nccl"}, all = by_nccl + device + nccl;
  const char* use = "use it with --transport nccl, or use --reduction scatter";
  runs.check_refused(by_nccl, use);
  runs.check_refused(by_nccl + device, use);
  runs.check_refused(all + Words{"--codec", "quantize:4"}, "codec quantize:4 encodes them");
  runs.check_refused(all + Words{"--zero", "1", "--codec", "quantize:4"}, "encodes them");
  runs.check_refused(all + Words{"--stages", "4", "--data-parallel", "1", "--untied"},
                     "in this plan no group of ranks sums gradients; leave this flag out");
  const Runs cyclic{{"--batch", "12", "--ranks", "4", "--schedule", "cyclic-v2"}};
  cyclic.check_refused(all, "they travel from rank to rank");
}

TEST_CASE("devices: products in tf32 train near f32, and leave its checkpoints") {
  const Runs runs{layout};
  const Words tf32{"--dtype", "tf32"};
  runs.check_refused(tf32, "--dtype tf32: the CPU has no such products; use --device cuda");
  runs.train("cpu");
  runs.train("tf32", tf32 + device + Words{"--stop-after", "3"});
  CHECK(losses_of(runs.path("tf32"))[2].at("loss") != losses_of(runs.path("cpu"))[2].at("loss"));
  runs.resume("tf32", Words{"--device", "cpu", "--dtype", "f32"});
  check_near(runs, "cpu", "tf32", rounding(std::ldexp(1, -11)));
}

TEST_CASE("checkpoints move between the CPU and devices") {
  const Runs runs{layout};
  const Words half{"--stop-after", "3"}, cpu{"--device", "cpu", "--transport", "threads"};
  runs.train("cpu");
  runs.train("there", half);
  runs.resume("there", on_devices());
  runs.train("back", half + on_devices());
  runs.resume("back", cpu);
  for (const char* moved : {"there", "back"}) check_near(runs, "cpu", moved, f32_rounding);

  const Words sample{"sample_gpt", "--from", runs.path("there"), "--temperature", "0"};
  CHECK(run(sample + device).output == run(sample).output);
}

#if PLANGRAD_MPI
namespace {

Finished train_processes(const Runs& runs, const char* name, const char* transport) {
  return mpirun(processes(2, runs.words(name, {"--transport", transport})));
}

void check_processes(const char* transport) {
  const Runs runs{Words{"--layers", "2", "--batch", "12", "--stages", "2"} + device};
  runs.train("threads");
  succeeded(train_processes(runs, "processes", transport));
  runs.check_same("threads", "processes");
}

}  // namespace

TEST_CASE("processes with devices give the bits of threads with them") { check_processes("mpi"); }

TEST_CASE("processes with devices send messages by NCCL") {
  if (!nccl_works(2)) SKIP_TEST("NCCL needs two devices");
  check_processes("nccl");
}

TEST_CASE("processes over NCCL: codecs, sums, a device for each, a rank that is killed") {
  if (!nccl_works(4)) SKIP_TEST("NCCL needs four devices");
  const Runs runs{layout + device + nccl};
  auto all = [&](const char* name, const Words& more, const Words& starter) {
    return mpirun_words(processes(4, runs.words(name, more), starter));
  };
  const std::string one_each = "export CUDA_VISIBLE_DEVICES=" + own_rank + "; exec \"$@\"";
  for (const Words& more : {Words{"--codec", "quantize:4"}, Words{"--reduction", "nccl"}}) {
    runs.train("threads", more);
    succeeded(run(all("processes", more, {"/bin/sh", "-c", one_each, "sh"})));
    runs.check_same("threads", "processes");
    for (const char* name : {"threads", "processes"}) std::filesystem::remove_all(runs.path(name));
  }
  check_ended(run(all("shared", {}, {"/usr/bin/env", "CUDA_VISIBLE_DEVICES=0"})), 2,
              "each rank needs a device of its own; ranks 0 and 1 both use device ");
  const std::string id = runs.path("process");
  const Words in_time{"/usr/bin/env", "OMPI_MCA_odls_base_sigkill_timeout=8",
                      "PRTE_MCA_odls_base_sigkill_timeout=8"};  // all can report
  Running job(in_time +
              all("lost", {"--steps", "1000000", "--evaluate-every", "0"}, noting_id(id)));
  wait_for_steps(runs.path("lost"), 6);
  REQUIRE(::kill(std::stoi(plangrad::nn::read_file(id + "3")), SIGKILL) == 0);
  const Finished lost = job.finish();
  INFO(lost.errors);
  CHECK(lost.status != 0);
  if (kills_at_once()) return;
  for (const std::string rank : {"0", "1", "2"})
    CHECK(std::regex_search(
        lost.errors, std::regex("(^|\\n)rank " + rank + ": [^\\n]*told to stop \\(SIGTERM\\)")));
}
#endif

#if EMULATOR_BUILT
TEST_CASE("NCCL needs devices") {
  const Runs runs{layout};
  runs.check_refused(nccl, "--transport nccl: NCCL moves the memory of GPUs; use --device cuda");
  runs.check_refused({"--device", "emulator", "--transport", "nccl", "--ranks", "65", "--stages",
                      "1", "--data-parallel", "65", "--batch", "65", "--schedule", "data"},
                     "65 ranks need a device each, and there are at most 64");
}
#endif

#endif
