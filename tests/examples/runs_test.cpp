// Runs of train_gpt against each other: the same bits however a run is repeated, stopped, resumed
// or recomputed; and the files that a run writes.
#include <csignal>
#include <thread>

#include "autograd/cpu/cpu_backend.h"
#include "autograd/version.h"
#include "nn/checkpoint/file.h"
#include "nn/models/gpt.h"
#include "tests/examples/runs.h"

using namespace plangrad::tests;
using nlohmann::json;

TEST_CASE("the same command gives the same bits, another seed others") {
  Runs runs;
  const Words dropout{"--dropout", "0.2", "--evaluate-every", "2"};
  runs.train("one", dropout);
  runs.train("two", dropout);
  REQUIRE(losses_of(runs.path("one")).size() == 9);  // 6 steps; validation after 2, 4 and 6
  REQUIRE(weights_of(runs.path("one")).size() == 2);
  runs.check_same("one", "two");

  runs.train("other", dropout + Words{"--seed", "7"});
  for (std::size_t i = 0; i < 9; ++i)
    CHECK(losses_of(runs.path("one"))[i] != losses_of(runs.path("other"))[i]);
}

TEST_CASE("a run over an earlier one replaces all of its files") {
  Runs runs;
  runs.train("fresh");
  runs.train("used", {"--seed", "7", "--steps", "8"});
  runs.train("used");
  runs.check_same("fresh", "used");
  CHECK(files_in(runs.path("used")).size() == files_in(runs.path("fresh")).size());

  // So does one that stops early; it has no validation loss, and says where it stopped.
  runs.train("used", {"--stop-after", "2"});
  CHECK(metrics_of(runs.path("used")).size() == 2);
  json summary = summary_of(runs.path("used"));
  CHECK(summary["steps"] == 2);
  CHECK(summary["complete"] == false);
  CHECK_FALSE(summary.contains("validation_loss"));
  CHECK(summary["state"] == "stopped");
  CHECK(summary["steps_asked"] == 6);
  CHECK(report_of(runs.path("used"))["summary"]["state"] == "stopped");
}

TEST_CASE("a stopped run goes on to the bits of one that was not stopped") {
  for (const std::string dtype : {"f32", "bf16"}) {
    CAPTURE(dtype);
    Runs runs;
    const Words flags{"--dropout", "0.2", "--microbatches",   "2",
                      "--dtype",   dtype, "--evaluate-every", "2"};
    runs.train("whole", flags);
    runs.train("parts", flags + Words{"--stop-after", "3"});
    runs.resume("parts", {"--stop-after", "1"});
    CHECK_THAT(plangrad::nn::read_file(runs.path("parts/plan.html")),
               Contains(": update 4 with each stage's median costs"));

    // The rest once in the same folder, which --resume implies, and once in another.
    runs.resume("parts", {"--out", runs.path("moved")});
    runs.check_same("whole", "moved");
    runs.resume("parts");
    runs.check_same("whole", "parts");
    for (const char* field : {"loss", "validation_loss", "config", "peak_bytes"})
      CHECK(summary_of(runs.path("whole"))[field] == summary_of(runs.path("parts"))[field]);
    CHECK_THAT(summary_of(runs.path("parts")).dump(),
               Contains("\"session_steps\":2") && Contains("--stop-after 3"));
  }
}

TEST_CASE("a run continues from the last of its checkpoints when it is killed") {
  Runs runs;
  const Words endless{"--steps", "1000000", "--save-every", "4", "--evaluate-every", "0"};
  const std::string out = runs.path("out");
  Running killed(tiny_run(runs.data, out, endless));
  wait_for_steps(out, 10);
  killed.signal(SIGKILL);
  CHECK(killed.finish().status == 128 + SIGKILL);

  runs.resume("out", {"--stop-after", "2"});
  std::size_t steps = metrics_of(out).size();
  CHECK(steps % 4 == 2);
  runs.train("whole", endless + Words{"--stop-after", std::to_string(steps)});
  runs.check_same("whole", "out");
}

TEST_CASE("an interrupted run saves, says how to go on, and goes on to the same bits") {
  Runs runs;
  const Words endless{"--steps", "1000000", "--dropout", "0.2", "--evaluate-every", "0"};
  const std::string out = runs.path("out");
  Running interrupted(tiny_run(runs.data, out, endless));
  wait_for_steps(out, 3);
  interrupted.signal(SIGINT);
  Finished result = interrupted.finish();
  CHECK(result.status == 128 + SIGINT);
  CHECK(result.errors.empty());
  std::string steps = std::to_string(metrics_of(out).size());
  CHECK_THAT(result.output, Contains("interrupted after " + steps +
                                     " of 1000000 steps; continue with "
                                     "--resume " +
                                     out));
  for (const char* file : {"/trace.json", "/report.html", "/plan.html", "/summary.json"})
    CHECK(std::filesystem::exists(out + file));
  CHECK_THAT(plangrad::nn::read_file(out + "/plan.html"),
             Contains("\"records\":{\"") && Contains("\"formula\":{"));
  CHECK(report_of(out)["summary"]["state"] == "interrupted");
  CHECK(report_of(out)["metrics"]["step"].back() == std::stoi(steps));

  runs.resume("out", {"--stop-after", "3"});
  runs.train("whole", endless + Words{"--stop-after", std::to_string(metrics_of(out).size())});
  runs.check_same("whole", "out");
}

TEST_CASE("a run that stands still for longer than its deadline, as after Ctrl-Z, goes on") {
  Runs runs;
  const std::string out = runs.path("out");
  const Words flags{
      "--steps",    "1000000", "--ranks",   "2", "--stages",         "2", "--untied", "--clip", "0",
      "--schedule", "1f1b",    "--timeout", "1", "--evaluate-every", "0"};
  Running stopped(tiny_run(runs.data, out, flags));
  wait_for_steps(out, 3);
  stopped.signal(SIGSTOP);
  std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  stopped.signal(SIGCONT);
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));  // it would give up by then
  stopped.signal(SIGINT);
  const Finished result = stopped.finish();
  CHECK(result.status == 128 + SIGINT);
  CHECK(result.errors.empty());
}

TEST_CASE("recomputation changes memory and no bit of a run") {
  Runs runs;
  const Words flags{"--dropout", "0.2", "--layers", "3", "--microbatches", "2"};
  runs.train("kept", flags);
  runs.train("recomputed", flags + Words{"--recompute"});
  runs.check_same("kept", "recomputed");
  auto activations = [&](const std::string& name) {
    return summary_of(runs.path(name))["peak_bytes"][0]["activations"].get<std::int64_t>();
  };
  CHECK(activations("recomputed") < activations("kept"));
}

TEST_CASE("metrics.jsonl has a line a step with the fields of a step") {
  Runs runs;
  runs.train("run", {"--evaluate-every", "0", "--warmup", "3", "--learning-rate", "0.004",
                     "--min-learning-rate", "0.001"});
  std::vector<json> lines = metrics_of(runs.path("run"));
  REQUIRE(lines.size() == 7);
  for (std::size_t i = 0; i < 6; ++i) {
    CHECK(lines[i].size() == 7);
    CHECK(lines[i]["step"] == i + 1);
    CHECK(lines[i]["loss"] > 0);
    CHECK(lines[i]["gradient_norm"] > 0);
    CHECK(lines[i]["seconds"] > 0);
    CHECK(lines[i]["tokens_per_second"].get<double>() ==
          Approx(4 * 8 / lines[i]["seconds"].get<double>()));
    CHECK(lines[i]["bytes_sent"] == 0);
  }
  // A quarter of the rate, a half, three, all; then down a cosine that would end after step 6.
  std::vector<double> rates{0.001, 0.002, 0.003, 0.004, 0.00325, 0.00175};
  for (std::size_t i = 0; i < 6; ++i)
    CHECK(lines[i]["learning_rate"].get<double>() == Approx(rates[i]));
  CHECK(lines[6] == json{{"step", 6}, {"validation_loss", lines[6]["validation_loss"]}});
}

TEST_CASE("summary.json has settings, losses, speed and memory") {
  Runs runs;
  runs.train("run", {"--beta2", "0.95", "--quiet"});
  std::vector<json> lines = metrics_of(runs.path("run"));
  json summary = summary_of(runs.path("run"));
  CHECK(summary["steps"] == 6);
  CHECK(summary["complete"] == true);
  CHECK(summary["state"] == "finished");
  CHECK(summary["ranks"] == 1);
  CHECK(summary["tokens_per_update"] == 4 * 8);
  CHECK_THAT(summary["command"].get<std::string>(), Contains("train_gpt --data " + runs.data));
  CHECK(summary["version"] == plangrad::autograd::version());
  CHECK(summary["machine"]["cores"] > 0);
  CHECK_THAT(summary["date"].get<std::string>(), Contains(" UTC"));
  CHECK(summary["loss"] == lines[5]["loss"]);
  CHECK(summary["validation_loss"] == lines[6]["validation_loss"]);
  double seconds = 0;
  for (std::size_t i = 0; i < 6; ++i) seconds += lines[i]["seconds"].get<double>();
  CHECK(summary["seconds"].get<double>() == Approx(seconds));
  CHECK(summary["tokens_per_second"].get<double>() == Approx(6 * 4 * 8 / seconds));
  CHECK(summary["model_flops_utilization"] > 0);
  CHECK(summary["bytes_sent"] == json::object());

  // Given flags and defaults, as numbers; not those that concern one session.
  json flags = summary["config"]["flags"];
  CHECK(flags["--layers"] == 1);
  CHECK(flags["--beta2"] == 0.95);
  CHECK(flags["--weight-decay"] == 0.1);
  CHECK(flags["--untied"] == false);
  CHECK(flags["--data"] == runs.data);
  CHECK_FALSE(flags.contains("--quiet"));

  using namespace plangrad::nn;
  GptConfig model{1, 2, 16, 8, 11, 0, true};
  CHECK(summary["config"]["model"] == to_json(model));
  CHECK(summary["parameters"] == whole_parameters(gpt(model)).numel());
  std::int64_t weights = 4 * Stage(gpt(model), 0, 3).parameters().numel();
  REQUIRE(summary["peak_bytes"].size() == 1);  // ranks
  json peak = summary["peak_bytes"][0];
  CHECK(peak["weights"] == weights);
  CHECK(peak["gradients"] == weights);
  CHECK(peak["optimizer"] == 2 * weights);
  CHECK(peak["activations"] > 4 * 8 * 16 * 4);  // bytes of one layer's output, at the least
  CHECK(peak["communication"] == 0);
  CHECK(peak["total"] > 4 * weights);
}
