// plan verify and plan simulate: the facts and times of plans, as lines and as JSON.
// Not here: what facts and times are (tests/parallel).
#include "tests/examples/plan_program.h"

#include "tests/folders.h"
#include "tests/parallel/support/ordinary_schedules.h"

using namespace plangrad::tests;

namespace {

constexpr int stages = 4, micros = 4, steps = 3;  // of small_plan

}  // namespace

TEST_CASE("plan verify --json has the facts of every schedule") {
  const Words keys{"hang_free",     "channel_capacity", "staleness",       "drift",
                   "live_versions", "messages",         "peak_inputs",     "peak_microbatches",
                   "bubble",        "makespan",         "bytes",           "verified",
                   "busy",          "peak_activations", "time_steps",      "ranks",
                   "stages",        "per_step",         "versions_in_use", "fresh_reads",
                   "breakdown",     "critical_path",    "stages_held",     "peak_models",
                   "steps"};
  for (const auto& [name, make] : ordinary_schedules()) {
    nlohmann::json facts = json_of(small_plan("verify", name));
    CHECK(facts.size() == keys.size());
    for (const std::string& key : keys) CHECK(facts.contains(key));
    CHECK(facts["verified"] == true);
    CHECK(facts["hang_free"] == true);
    CHECK(facts["channel_capacity"] == 0);
    CHECK(json_of(small_plan("simulate", name)) == facts);
  }

  nlohmann::json gpipe = json_of(small_plan("verify", "gpipe"));
  CHECK(gpipe["peak_microbatches"] == nlohmann::json{4, 4, 4, 4});
  CHECK(gpipe["bubble"] == Approx((stages - 1.0) / (micros + stages - 1)));
  CHECK(gpipe["makespan"] == Approx(steps * 3 * (micros + stages - 1)));
  CHECK(gpipe["messages"] == nlohmann::json{{"a", 36}, {"g", 36}});
  CHECK(json_of(small_plan("verify", "1f1b"))["peak_microbatches"] == nlohmann::json{4, 3, 2, 1});
  CHECK(json_of(small_plan("verify", "pipedream"))["live_versions"] == nlohmann::json{4, 3, 2, 1});
  nlohmann::json two_versions = json_of(small_plan("verify", "2bw"));
  CHECK(two_versions["staleness"] == 1);
  CHECK(two_versions["live_versions"] == nlohmann::json{2, 2, 2, 2});
  CHECK(two_versions["versions_in_use"] == nlohmann::json{2, 2, 2, 2});
  CHECK(two_versions["fresh_reads"] == nlohmann::json{"0000", "0000", "0000", "0000"});
  CHECK(two_versions["drift"] == 0);
  nlohmann::json drifting = json_of(small_plan("verify", "paci"));
  CHECK(drifting["drift"] == 1);
  CHECK(drifting["live_versions"] == nlohmann::json{1, 1, 1, 1});
  CHECK(drifting["fresh_reads"] == nlohmann::json{"0001", "0011", "0111", "1111"});
}

TEST_CASE("plan verify --json has the facts of the round dance, in every setting") {
  struct Form {
    const char* setting;
    int ranks, versions_in_use, activations;
  };
  // One device computes backwards first, so that 32 are alive instead of 8 * 9 / 2.
  const Form forms[]{{"one-device", 1, 2, 32},
                     {"data", 8, 1, 36},
                     {"pipeline", 8, 2, 36},
                     {"model", 36, 1, 36},
                     {"zero", 8, 2, 36}};
  for (const Form& form : forms) {
    CAPTURE(form.setting);
    const nlohmann::json facts = json_of({"plan", "verify", "--schedule", "cyclic-v2", "--stages",
                                          "8", "--backward", "1", "--setting", form.setting});
    CHECK(facts["ranks"] == form.ranks);
    CHECK(facts["stages"] == 8);
    CHECK(facts["per_step"] == 8);
    CHECK(facts["live_versions"] == std::vector(form.ranks, 2));
    const std::vector<int> in_use = facts["versions_in_use"];
    CHECK(*std::max_element(in_use.begin(), in_use.end()) == form.versions_in_use);
    CHECK(facts["fresh_reads"] == nlohmann::json{"00000001", "00000011", "00000111", "00001111",
                                                 "00011111", "00111111", "01111111", "11111111"});
    CHECK(facts["peak_activations"] == form.activations);
    CHECK(facts["time_steps"]["activations"] == std::vector(16, form.activations));
    CHECK(facts["time_steps"]["visits_of_a_stage"] == nlohmann::json{{"least", 1}, {"most", 1}});
  }
}

TEST_CASE("plan verify and simulate print readable lines") {
  const std::string verified = output_of(small_plan("verify", "1f1b"));
  CHECK(verified.starts_with("verified\n"));
  CHECK_THAT(verified, Contains("\npeak forwards         4 3 2 1\n"));
  CHECK_THAT(verified, Contains("\nlive versions         1 on every rank\n"));
  CHECK_THAT(verified, Contains("\nmessages              36 a, 36 g\n"));
  CHECK_THAT(verified, Contains("\nbubble                42.9%\n"));
  CHECK_THAT(output_of(small_plan("verify", "1f1b") + Words{"--recompute"}),
             Contains("\npeak forwards         1 on every rank\npeak inputs           4 3 2 1\n"));
  CHECK_THAT(verified, !Contains("versions in use") && !Contains("reads of new weights"));
  Words words{"plan", "verify", "--schedule", "cyclic-v2", "--stages"};
  CHECK_THAT(output_of(words + Words{"3"}),
             Contains("\nlive versions         2 on every rank\n"
                      "versions in use       1 on every rank\n"
                      "reads of new weights  6 of 9; the stages of each microbatch: 001 011 111\n"
                      "peak forwards         3 on every rank\n"));
  CHECK_THAT(output_of(words + Words{"17"}), Contains("\nreads of new weights  153 of 289\n"));
  const std::string simulated =
      output_of(small_plan("simulate", "2bw") + Words{"--forward", "1,1,1,0"});
  CHECK(simulated.starts_with("updates               3\nmakespan  "));
  CHECK_THAT(simulated, Contains("\nbusy  ") && Contains("\nbytes                 0 B\n"));
  CHECK_THAT(output_of({"plan", "verify", "--schedule", "1f1b", "--stages", "20"}),
             Contains("busy                  5% on every rank\n"));
  CHECK_THAT(
      output_of({"plan", "verify", "--schedule", "1f1b", "--stages", "20", "--microbatches", "20"}),
      Contains("\npeak forwards         1 to 20\n"));
}

TEST_CASE("plan simulate tells where the time goes, and what sets the plan's length") {
  const Words words{"plan",           "simulate", "--schedule",      "data",
                    "--stages",       "1",        "--data-parallel", "2",
                    "--microbatches", "1",        "--backward",      "2",
                    "--step",         "0.5",      "--latency",       "0.25",
                    "--slowness",     "1,2",      "--reduction",     "ring"};
  // The fast rank waits 3 s for the slow one, then both for 2 messages in a row, 0.25 s each.
  CHECK_THAT(output_of(words), Contains("\ncritical path         7.5 s: 6 s compute, 1 s update, "
                                        "500 ms collectives; 3 computations, 1 collective, on 1 "
                                        "rank\n\n"));
  CHECK_THAT(output_of(words), Contains(R"(

             compute    update          waiting        point-to-point  collectives
rank 0       3 s (40%)  500 ms (6.67%)  3.5 s (46.7%)  0               500 ms (6.67%)
rank 1       6 s (80%)  1 s (13.3%)     0              0               500 ms (6.67%)
all 2 ranks  9 s (60%)  1.5 s (10%)     3.5 s (23.3%)  0               1 s (6.67%)
)"));
  const nlohmann::json facts = json_of(words);
  CHECK(facts["breakdown"]["makespan"] == 7.5);
  CHECK(facts["breakdown"]["waiting"] == 3.5);
  CHECK(facts["breakdown"]["ranks"][1]["update"] == 1);
  CHECK(facts["critical_path"]["collective"] == 0.5);
  CHECK(facts["critical_path"]["computations"] == 3);
  const std::string wide = output_of({"plan", "simulate", "--schedule", "1f1b", "--stages", "17"});
  CHECK_THAT(wide, Contains("\nall 17 ranks  ") && !Contains("\nrank 0 "));
}

TEST_CASE("plan verify and simulate tell what a time step holds") {
  const std::string file = clone_path("tests/parallel/plans/cyclic_v2_data.plan");
  nlohmann::json facts = json_of({"plan", "verify", file, "--backward", "1"});
  CHECK(facts["peak_activations"] == 6);
  const nlohmann::json& steps = facts["time_steps"];
  CHECK(steps["seconds"] == 1);
  CHECK(steps["first"] == 0);
  CHECK(steps["activations"] == nlohmann::json{1, 2, 4, 5, 6, 6});
  CHECK(steps["gradient_sums"].size() == 6);
  CHECK(steps["visits_of_a_stage"] == nlohmann::json{{"least", 0}, {"most", 1}});
  CHECK_THAT(output_of({"plan", "simulate", file}), !Contains("time step"));
  for (const char* command : {"verify", "simulate"}) {
    const std::string said = output_of({"plan", command, file, "--time-steps", "--backward", "1"});
    CHECK_THAT(said, Contains("\ntime step             1 s\npeak activations      6\n"));
    CHECK_THAT(said, Contains("\nin the middle         time steps 0 to 5\n"));
    CHECK_THAT(said, Contains("\nactivations           1 to 6, 4 on average\n"));
    CHECK_THAT(said, Contains("\nbytes sent            0 B in each\n"));
  }
  const Words free{"plan", "verify", file, "--forward", "0", "--backward", "0"};
  CHECK_FALSE(json_of(free).contains("time_steps"));
  check_refused(free + Words{"--time-steps"}, "no forward or backward takes time", 1);
  for (const Words& slow : {Words{"--step", "2147483647"}, {"--latency", "1e15"}}) {
    CHECK(json_of(Words{"plan", "verify", file} + slow)["makespan"] > 1e9);
    CHECK_FALSE(json_of(Words{"plan", "simulate", file} + slow).contains("time_steps"));
    check_refused(Words{"plan", "verify", file, "--time-steps"} + slow, "too many to count them");
  }
  output_of({"plan", "compare", "1f1b", "gpipe", "--stages", "2", "--step", "2147483647"});
}

TEST_CASE("plan simulate prints the memory that follows from the sizes that it is given") {
  const Words words{"plan",     "simulate", "--schedule",     "1f1b",
                    "--stages", "2",        "--microbatches", "4"};
  CHECK_THAT(output_of(words), !Contains("memory") && !Contains("fullest"));
  const Words sizes{"--weight-bytes", "1000", "--activation-bytes", "100"};
  // Rank 0: a version, an open sum, and the activations of two microbatches.
  CHECK_THAT(output_of(words + sizes),
             Contains("\npeak memory           ") && Contains("\nfullest rank          rank 0: "));
  const nlohmann::json memory = json_of(words + sizes)["memory"];
  double at_peak = 0;
  for (const nlohmann::json& bytes : memory["fullest"]["bytes"]) at_peak += bytes.get<double>();
  CHECK(memory["peaks"][memory["fullest"]["rank"].get<int>()] == at_peak);
  CHECK(memory["fullest"]["bytes"]["weights"] == 1000);
  CHECK(memory["fullest"]["bytes"]["activations"] == 200);
}

TEST_CASE("plan simulate takes costs as one value or one for each stage") {
  const Words words{"plan",     "simulate", "--schedule",     "1f1b",
                    "--stages", "3",        "--microbatches", "6"};
  const Words costs{"--forward",   "0.01", "--backward",         "0.02",
                    "--bandwidth", "1e6",  "--activation-bytes", "500"};
  nlohmann::json free = json_of(words + Words{"--forward", "0.01", "--backward", "0.02"});
  CHECK(free["makespan"] == Approx((6 + 3 - 1) * 0.03));
  CHECK(free["bytes"] == 0);
  nlohmann::json facts = json_of(words + costs);
  CHECK(facts["bytes"] == 2 * 2 * 6 * 500);
  CHECK(facts["makespan"] > free["makespan"]);
  const Words lists{"--forward",          "9",        "--forward", "0.01,0.01,1e-2",
                    "--activation-bytes", "500,500,0"};
  CHECK(facts["peak_outputs"] == nlohmann::json{3 * 500, 2 * 500, 500});
  nlohmann::json from_lists = json_of(words + costs + lists);  // the last stage sends no output
  CHECK(from_lists["peak_outputs"] == nlohmann::json{3 * 500, 2 * 500, 0});
  for (const char* last : {"peak_outputs", "memory"}) from_lists[last] = facts[last];
  CHECK(from_lists == facts);
  CHECK(json_of(words + costs + Words{"--latency", "1"})["makespan"] > 4.0);
  CHECK(json_of(words + costs + Words{"--step", "0,0,2"})["makespan"] > 2.0);
  CHECK(json_of(words + costs + Words{"--slowness", "1,1,10"})["makespan"] > 6 * 0.3);
  CHECK(json_of(words + costs + Words{"--slowness", "1,1,1"}) == facts);
  CHECK(json_of(words + Words{"--data-parallel", "2", "--weight-bytes", "100,200,300"})["bytes"] ==
        2 * 600);  // an all-reduce of two ranks: each sends the weights once
  const Words split{"plan", "simulate", clone_path("tests/parallel/plans/zero_bubble.plan"),
                    "--backward", "4"};
  auto makespan = [&](const Words& parts) { return json_of(split + parts)["makespan"]; };
  CHECK(makespan({}) == makespan({"--input-part", "2", "--weight-part", "2,2"}));
  CHECK(makespan({"--input-part", "3", "--weight-part", "1"}) > makespan({}));
  const Folder folder;
  const std::string rows = "stages 1 per_step 2 steps 1\n0F0v0 0B0v0 0F1v0 0I1v0 0W1v0 0Sv1\n";
  const Words mixed{"plan", "simulate", folder.write("mixed", rows), "--input-part=1"};
  CHECK_THAT(succeeded(run(mixed + Words{"--backward=3"})).errors, Contains("note: --backward di"));
  CHECK(run(mixed + Words{"--backward=2"}).errors.empty());
  CHECK_THAT(run({"plan", "simulate", "--schedule", "1f1b", "--input-part", "3"}).errors,
             Contains("times of split backwards, which this plan does not have; give --backward"));
}
