// train_gpt on more than one rank: what it writes, every schedule against others and against one
// rank, stops and resumes, also in another layout, and plans of the user's own.
// Not here: ranks that are processes (processes_test.cpp); one rank (runs_test.cpp).
#include <csignal>
#include <set>

#include "nn/checkpoint/file.h"
#include "tests/examples/runs.h"
#include "tests/manifests.h"
#include "tests/sanitized.h"

using namespace plangrad::tests;
using nlohmann::json;

namespace {

/// With its embedding and its head, this model can be cut into four stages.
const Words model{"--layers", "2", "--batch", "12"};

struct Split {
  std::string schedule;
  Words layout;
  Words flags() const { return Words{"--schedule", schedule, "--microbatches", "3"} + layout; }
};

const Words four_replicas{"--data-parallel", "4"}, four_stages{"--stages", "4"},
    two_by_two{"--stages", "2", "--data-parallel", "2"};
const std::vector<Split> splits{{"data", four_replicas},   {"gpipe", two_by_two},
                                {"1f1b", four_stages},     {"pipedream", four_stages},
                                {"pipedream", two_by_two}, {"2bw", four_stages},
                                {"2bw", two_by_two}};

/// Checks that two runs took the same steps with about the same losses, here at 2 to 3.
void check_close(const std::string& one, const std::string& two) {
  const std::vector<json> a = losses_of(one), b = losses_of(two);
  REQUIRE(a.size() == b.size());
  REQUIRE_FALSE(a.empty());
  for (std::size_t i = 0; i < a.size(); ++i) {
    const char* name = a[i].contains("loss") ? "loss" : "validation_loss";
    CHECK(a[i]["step"] == b[i]["step"]);
    CHECK(a[i][name].get<double>() == Approx(b[i].at(name).get<double>()).epsilon(1e-5));
  }
}

std::int64_t sum_of(const json& numbers) {
  std::int64_t sum = 0;
  for (const json& number : numbers) {
    CHECK(number > 0);
    sum += number.get<std::int64_t>();
  }
  return sum;
}

/// The file of a plan of four stages and four steps, from `first` on.
std::string plan_file(const Runs& runs, const Split& split, const std::string& first = "0") {
  const Words show{"plan", "show", "--steps", "4", "--clip", "--tied", "--first", first};
  return runs.folder.write(split.schedule + first + ".plan",
                           succeeded(run(show + split.flags())).output);
}

}  // namespace

TEST_CASE("on four ranks every schedule writes metrics, a summary, a trace and a report") {
  for (const Split& split : fewer(splits)) {
    CAPTURE(split.flags());
    Runs runs{model};
    const std::string out = runs.path("run");
    runs.train("run", split.flags());

    std::vector<json> lines = metrics_of(out);
    REQUIRE(lines.size() == 7);
    std::int64_t bytes = 0;
    for (std::size_t i = 0; i < 6; ++i) bytes += lines[i]["bytes_sent"].get<std::int64_t>();
    json summary = summary_of(out);
    CHECK(sum_of(summary["bytes_sent"]) == bytes);
    CHECK(summary["bytes_sent"].contains("reductions"));  // of replicas, or of the tied table
    CHECK(summary["bytes_sent"].contains("activations") == (split.schedule != "data"));
    CHECK(summary["bytes_sent"].contains("activation gradients") == (split.schedule != "data"));
    CHECK(summary["loss"] == lines[5]["loss"]);
    CHECK(summary["validation_loss"] == lines[6]["validation_loss"]);
    for (const char* kind : {"measured", "simulated"}) {
      CHECK(summary["bubble"][kind] > 0);
      CHECK(summary["bubble"][kind] < 1);
    }
    REQUIRE(summary["peak_bytes"].size() == 4);
    for (const json& peak : summary["peak_bytes"])
      for (const char* category : {"weights", "gradients", "optimizer", "activations"})
        CHECK(peak[category] > 0);

    std::set<int> named, computing;
    const json trace = json::parse(plangrad::nn::read_file(out + "/trace.json"));
    for (const json& event : trace["traceEvents"]) {
      if (event["name"] == "process_name") named.insert(event["pid"].get<int>());
      if (event["ph"] == "X") computing.insert(event["pid"].get<int>());
    }
    CHECK(named == std::set<int>{0, 1, 2, 3, 4, 5, 6, 7});  // measured, and simulated
    CHECK(computing == named);
    CHECK_THAT(plangrad::nn::read_file(out + "/report.html"),
               Contains(": train_gpt: " + split.schedule + ", 4 ranks</title>"));
    const json report = report_of(out);
    for (const json& shown : report["windows"]) CHECK(shown["cells"]["rows"].size() == 4);
    // Weights and optimizer's state of each stage, and of the table that two of them share.
    const std::size_t parts = split.schedule == "data"      ? 1
                              : split.layout == four_stages ? 4 + 1
                                                            : 3;
    CHECK(weights_of(out).size() == 2 * parts);
  }
}

TEST_CASE("a run of pipedream says what clipping costs it, and reports more than filling up") {
  Runs runs{model + Split{"pipedream", four_stages}.flags() + Words{"--steps", "12"}};
  const std::string advice = "with --clip 0, they work in parallel";
  Finished clipped = run(runs.words("clipped")), other = run(runs.words("other", {"--clip", "0"}));
  CHECK_THAT(clipped.output, Contains(advice));
  CHECK(other.status == 0);
  CHECK_THAT(other.output, !Contains(advice));
  const json shown = report_of(runs.path("other"))["windows"][0];
  CHECK(shown["first"] == 1);
  CHECK(shown["last"] == 8);  // microbatches, on 4 stages
}

TEST_CASE("a run of 2bw with one stage says that it is no pipeline") {
  const Finished one = run(Runs{model}.words("one", {"--ranks", "2", "--schedule", "2bw"}));
  CHECK_THAT(one.output, Contains(". With one stage, 2bw gains nothing") && Contains("--stages N"));
}

TEST_CASE("a run of paci says what its updates wait for, and where its pipeline drains") {
  Runs runs{model + Split{"paci", four_stages}.flags() + Words{"--steps", "6"}};
  const std::string wait = "Its updates wait for all stages, as ";
  auto said = [&](const std::string& name, const Words& more) {
    return succeeded(run(runs.words(name, more))).output;
  };
  CHECK_THAT(said("all", {}), Contains(wait + "embeddings are tied; with --untied and --clip 0 "));
  CHECK_THAT(said("clipped", {"--untied"}),
             Contains(wait + "gradients are clipped; with --clip 0 none waits"));
  const std::string full = said("full", {"--untied", "--clip", "0", "--drift", "1"});
  CHECK_THAT(full, !Contains(wait));
  CHECK_THAT(full, Contains("\nstep 4: the pipeline drained (recording), which with drift changes "
                            "the numbers of the updates that follow\n"));
  CHECK_THAT(full, !Contains("step 6: "));  // nothing follows
  const json drained{{"recording", 1}, {"end", 1}};
  CHECK(summary_of(runs.path("full"))["drained"] == drained);
  CHECK(said("quiet", {"--untied", "--clip", "0", "--drift", "1", "--quiet"}).empty());
  CHECK(summary_of(runs.path("quiet"))["drained"] == drained);
  CHECK_THAT(run({"plan", "verify", "--schedule", "paci", "--stages", "2", "--recompute"}).errors,
             Contains("on the weights of its backward, so the numbers change"));
  runs.check_refused({"--schedule", "2bw", "--drift", "1"}, "this flag is for paci");
}

TEST_CASE("on four ranks a stopped run goes on to the bits of one that was not stopped") {
  for (const Split& split : fewer(splits)) {
    CAPTURE(split.flags());
    Runs runs{model + split.flags() + Words{"--dropout", "0.2", "--evaluate-every", "2"}};
    runs.train("whole");
    runs.train("parts", {"--stop-after", "3"});
    CHECK(losses_of(runs.path("parts")).size() == 4);  // and the validation after step 2
    runs.resume("parts");
    REQUIRE(losses_of(runs.path("whole")).size() == 9);
    runs.check_same("whole", "parts");
  }
}

TEST_CASE("schedules that flush give the numbers of one rank with the same microbatches") {
  const std::vector<Split> one_replica{{"gpipe", four_stages}, {"1f1b", four_stages}};
  const std::vector<Split> two_replicas{
      {"data", {"--data-parallel", "2"}}, {"gpipe", two_by_two}, {"1f1b", two_by_two}};
  Runs runs{model + Words{"--untied"}};
  runs.train("three", {"--microbatches", "3"});
  for (const Split& split : one_replica) {
    CAPTURE(split.schedule);
    runs.train("run", split.flags());
    runs.check_equal("three", "run");
  }
  // A replica sums its three gradients first: an order that all these share, but not one rank.
  runs.train("six", {"--microbatches", "6"});
  for (const Split& split : two_replicas) {
    CAPTURE(split.schedule);
    runs.train(split.schedule, split.flags());
    runs.check_equal("data", split.schedule);
  }
  check_close(runs.path("six"), runs.path("data"));
}

TEST_CASE("a run goes on in other layouts and with other schedules") {
  Runs runs{model};
  runs.train("run", Split{"2bw", four_stages}.flags() +
                        Words{"--steps", "12", "--warmup", "2", "--stop-after", "3"});
  const Words some{"--stop-after", "3"};
  const Words one_rank{"--schedule",      "data", "--stages",       "1",
                       "--data-parallel", "1",    "--microbatches", "6"};
  runs.resume("run", one_rank + some + Words{"--out", runs.path("one")});
  runs.resume("run", Split{"1f1b", two_by_two}.flags() + some);
  check_close(runs.path("run"), runs.path("one"));
  runs.resume("run", one_rank + some);
  runs.resume("run", Split{"pipedream", four_stages}.flags());
  REQUIRE(metrics_of(runs.path("run")).size() == 13);
  CHECK(summary_of(runs.path("run"))["peak_bytes"].size() == 4);
}

TEST_CASE("a run whose width was found from its ranks goes on without a flag") {
  Runs runs{model + Words{"--ranks", "4", "--stages", "2", "--microbatches", "3"}};
  runs.train("whole");
  runs.train("parts", {"--stop-after", "3"});
  runs.resume("parts");
  runs.check_same("whole", "parts");
  CHECK(summary_of(runs.path("parts"))["peak_bytes"].size() == 4);
}

TEST_CASE("an interrupted run on four ranks saves and goes on") {
  Runs runs{model + Split{"2bw", four_stages}.flags() +
            Words{"--steps", "1000000", "--evaluate-every", "0"}};
  const std::string out = runs.path("out");
  Running interrupted(runs.words("out"));
  wait_for_steps(out, 6);  // the steps that it measures and records are over
  interrupted.signal(SIGINT);
  Finished result = interrupted.finish();
  CHECK(result.status == 128 + SIGINT);
  CHECK(result.errors.empty());
  const std::size_t steps = metrics_of(out).size();
  CHECK_THAT(result.output, Contains("interrupted after " + std::to_string(steps) + " of 1000000"));
  runs.resume("out", {"--stop-after", "2"});
  CHECK(metrics_of(out).size() == steps + 2);
}

TEST_CASE("one rank is interrupted amid its products, again and again, and saves each time") {
  // With a handler on the usual stack, about every third of these runs ended by a fault in oneDNN.
  const Runs runs{{"--layers", "1", "--heads", "4", "--width", "512", "--context", "32", "--batch",
                   "32", "--steps", "1000000", "--evaluate-every", "0"}};
  for (const std::string name : {"a", "b", "c", "d", "e", "f"}) {
    Running interrupted(runs.words(name));
    wait_for_steps(runs.path(name), 1);
    interrupted.signal(SIGTERM);
    const Finished result = interrupted.finish();
    CHECK(result.status == 128 + SIGTERM);
    CHECK_THAT(result.output, Contains("interrupted after "));
    std::filesystem::remove_all(runs.path(name));
  }
}

namespace {

/// The plan in a checkpoint gets a header that says a default, as those of older programs do.
void say_a_default(const std::string& manifest) {
  std::string text = old_manifest(json::parse(plangrad::nn::read_file(manifest)));
  const std::string before = "\"stages 4 ";
  REQUIRE(text.find(before) != text.npos);
  plangrad::nn::write_file(manifest,
                           text.replace(text.find(before), before.size(), before + "sharded 0 "));
}

}  // namespace

TEST_CASE("a plan of the user's own gives the bits of the schedule that it was made by") {
  // From the first step on that reads no version before the run's first.
  const std::vector<std::pair<Split, std::string>> plans{
      {{"2bw", four_stages}, "1"},
      {{"1f1b", four_stages}, "0"},
      {{"pipedream", four_stages + Words{"--microbatches", "1"}}, "3"}};
  for (const auto& [split, first] : fewer(plans, 1)) {
    CAPTURE(split.schedule);
    Runs runs{model + Words{"--steps", "8"}};
    runs.train("schedule", split.flags());
    const Words own{"--plan", plan_file(runs, split, first)};
    runs.train("plan", own);
    runs.check_same("schedule", "plan");
    CHECK(summary_of(runs.path("plan"))["peak_bytes"].size() == 4);
    runs.train("parts", own + Words{"--stop-after", "4"});
    say_a_default(runs.path("parts") + "/checkpoint/manifest.json");
    runs.resume("parts");
    runs.check_same("schedule", "parts");
  }
}

TEST_CASE("a plan that can't be run is refused before anything is written") {
  Runs runs{model + Words{"--steps", "8"}};
  const Split split{"1f1b", four_stages};
  const std::string good = plan_file(runs, split), text = plangrad::nn::read_file(good);
  const Words own{"--plan", good};
  runs.check_refused({"--plan", runs.path("none.plan")}, "no file ");
  runs.check_refused({"--plan", runs.folder.write("damaged.plan", "stages four\n")},
                     "damaged.plan: plan, line 1: ");
  std::string broken = text;
  broken.erase(broken.find(" 1F0v0"), 6);
  runs.check_refused({"--plan", runs.folder.write("broken.plan", broken)},
                     "send: rank 1, 1a0>2: ", 2);  // the second has the row, with its cell marked
  runs.check_refused({"--plan", plan_file(runs, {"gpipe", {"--stages", "6"}})},
                     "6 stages: a GPT of --layers 2 has 4 parts to cut between");
  runs.check_refused({"--plan", plan_file(runs, {"2bw", four_stages})}, "--first 1");
  for (const Words& more :
       {Words{"--schedule", "1f1b"}, {"--stages", "4"}, {"--microbatches", "3"}})
    runs.check_refused(own + more, "give --plan or ");
  runs.check_refused(own + Words{"--ranks", "3"}, "3 ranks: ");
  runs.check_refused(own + Words{"--batch", "8"}, "--batch 8 does not divide into 3 microbatches");
  // What every rank finds for itself, every rank may say.
  runs.check_refused(own + Words{"--steps", "6"}, "does not divide the 6");
  runs.check_refused(own + Words{"--clip", "0"}, "clip");
  runs.check_refused(own + Words{"--untied"}, "tied");
}

TEST_CASE("a layout that can't be is refused before anything is written") {
  Runs runs{model};
  runs.check_refused({"--ranks", "3", "--stages", "2"}, "3 ranks: the schedule 1f1b with --stages");
  runs.check_refused({"--ranks", "3", "--stages", "2", "--data-parallel", "2"}, "needs 4");
  runs.check_refused({"--ranks", "2", "--stages", "4"}, "needs 4");
  runs.check_refused({"--ranks", "0"}, "--ranks: expected");
  runs.check_refused({"--stages", "9"}, "9 stages: a GPT of --layers 2 has 4 parts to cut between");
  runs.check_refused({"--schedule", "zigzag"}, "--schedule: expected one of 1f1b, 2bw,");
  runs.check_refused({"--batch", "5", "--microbatches", "2"},
                     "--batch 5 does not divide into 2 microbatches");
  runs.check_refused({"--data-parallel", "5"}, "--batch 12 does not divide into 5 microbatches");
}
