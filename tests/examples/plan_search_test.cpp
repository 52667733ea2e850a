// `plan search`: its table, its JSON, and what it refuses in one line.
// Not here: which plans are the fastest (tests/parallel/planner/search_test.cpp). Chapter 16.
#include "tests/examples/plan_program.h"

using namespace plangrad::tests;

namespace {

const Words words{"plan",      "search", "--model", "gpt2-124m", "--machine",  "v100-aws",
                  "--devices", "4",      "--batch", "16",        "--schedule", "1f1b"};

}  // namespace

TEST_CASE("plan search prints the best plans, what limits them, and the command of the first") {
  const std::string output = output_of(words);
  CHECK_THAT(output, Contains("0.124 billion parameters in bf16, 4 devices of v100-aws"));
  CHECK_THAT(output, Contains("\n1  "));
  CHECK_THAT(output, Contains("The first plan computes "));
  CHECK_THAT(output, Contains("\nRun it: train_gpt --context 1024 --heads 12 --layers 12 "
                              "--width 768 --batch 16 --clip 0 --data-parallel ") &&
                         Contains(" --data my.txt\nIts vocabulary has 50257 tokens: "));

  CHECK(json_of(words + Words{"--rows", "3"})["best"].size() == 3);
  const nlohmann::json json = json_of(words);
  REQUIRE(json["best"].size() == 10);
  const nlohmann::json& best = json["best"][0];
  CHECK(best["depth"].get<int>() * best["width"].get<int>() <= 4);
  CHECK(best["sequences"].get<int>() * best["microbatches"].get<int>() * best["width"].get<int>() ==
        16);
  CHECK(best["bytes"] <= json["memory"]);
  double shares = 0;
  for (const nlohmann::json& share : best["shares"]) shares += share.get<double>();
  CHECK_THAT(shares, Catch::Matchers::WithinRel(1.0, 1e-9));
}

TEST_CASE("plan simulate --model predicts what plan search does for its command") {
  const auto simulated = [](const nlohmann::json& found, const nlohmann::json& row) {
    Words one{"plan", "simulate", "--sequences", std::to_string(row["sequences"].get<int>())};
    for (const char* name : {"model", "machine"})
      one.push_back(std::string("--") + name), one.push_back(found[name].get<std::string>());
    for (const auto& [name, value] : row["flags"].items()) {
      if (name == "--batch" || name == "--clip" || value == false || value == "bf16") continue;
      one.push_back(name);
      std::string word = value.is_string() ? value.get<std::string>() : value.dump();
      std::erase_if(word, [](char c) { return c == '[' || c == ']'; });
      if (value != true) one.push_back(word);
    }
    return json_of(one);
  };
  const auto check = [&](const Words& more, double within) {
    const nlohmann::json found = json_of(words + more);
    for (const nlohmann::json& row : found["best"]) {
      CAPTURE(row["flags"].dump());
      const nlohmann::json alone = simulated(found, row);
      CHECK_THAT(alone["makespan"].get<double>(),
                 Catch::Matchers::WithinRel(row["seconds"].get<double>(), within));
      CHECK(alone["memory"]["peaks"][row["rank"].get<int>()] == row["bytes"]);
    }
  };
  // The search sends a tied table in fewer pieces.
  check({"--devices", "1", "--schedule", "data", "--rows", "2"}, 1e-6);
  check({"--batch", "3", "--schedule", "1f1b,zb-h1,interleaved"}, 1e-4);
  check({"--batch", "3", "--codec-channel", "quantize:4:64", "--dtype", "f32"}, 1e-4);
  check({"--devices", "2", "--schedule", "1f1b", "--machine", "laptop", "--dtype", "f32"}, 1e-4);
}

TEST_CASE("plan search prints a command of train_resnet that runs: its model and its usual data") {
  const std::string output = output_of(words + Words{"--model", "resnet18"});
  CHECK_THAT(output, Contains("\nRun it: train_resnet ") && Contains(" --width 64 "));
  CHECK_THAT(output, !Contains("--data ") && !Contains("vocabulary"));
}

TEST_CASE("plan search says which device each rank has, as plan simulate takes it") {
  const nlohmann::json all = json_of(words + Words{"--devices", "16", "--rows", "99"})["best"];
  bool crosses = false;
  for (const nlohmann::json& plan : all) {
    const int width = plan["width"], depth = plan["depth"];
    const bool by_stage = plan["side_by_side"] == "replicas";
    std::vector<int> expected;
    for (int replica = 0; replica < width; ++replica)
      for (int rank = 0; rank < depth; ++rank)
        expected.push_back(by_stage ? rank * width + replica : replica * depth + rank);
    CHECK(plan["devices"] == expected);
    crosses |= by_stage && width > 1 && depth > 1;
    for (const auto& share : plan["shares"].items()) CHECK(share.value() >= 0);
  }
  CHECK(crosses);
}

TEST_CASE("plan search chooses among codecs, shares and stages a rank, and names what is unusual") {
  const Words more{"--schedule", "interleaved,data", "--codec", "none,quantize:4:64", "--prune",
                   "0,0.9",      "--devices",        "8"};
  const nlohmann::json best = json_of(words + more)["best"][0];
  CHECK(best["codec"] == "quantize:4:64");
  CHECK(best["flags"]["--codec"] == "quantize:4:64");
  CHECK(best["flags"]["--prune"] == 0.9);
  CHECK_THAT(output_of(words + more),
             Contains("  sums quantize:4:64, 90% pruned\n") &&
                 Contains("Until a run has pruned, the first plan's fullest rank needs "));
  const Words few{"--schedule", "interleaved", "--batch", "2", "--machine", "dgx-a100"};
  const nlohmann::json chunked = json_of(words + few)["best"][0];
  CHECK(chunked["chunks"] > 2);
  CHECK(chunked["flags"]["--chunks"] == chunked["chunks"]);
  CHECK_THAT(output_of(words + few),
             Contains("  " + chunked["chunks"].dump() + " stages a rank\n"));
}

TEST_CASE("plan search takes what comes twice in a list once") {
  const nlohmann::json once = json_of(words + Words{"--codec", "none,quantize:4", "--prune", "0"});
  const nlohmann::json twice =
      json_of(words + Words{"--schedule", "1f1b,1f1b", "--codec", "none,quantize:4,quantize:4:1024",
                            "--codec-channel", "none,none", "--prune", "0,0.0"});
  CHECK(twice["candidates"] == once["candidates"]);
  CHECK(twice["best"] == once["best"]);
  check_refused(words + Words{"--prune", "0,2"}, "--prune: expected a number from 0 to 0.9999");
}

TEST_CASE("plan search names the plan that needs the least more, if there is one") {
  const Words little = words + Words{"--memory", "2.4e9"};
  CHECK(json_of(little)["nearest"]["bytes"] > 2.4e9);
  CHECK_THAT(output_of(little), Contains("Nearest that does not fit: 1f1b, "));
}

TEST_CASE("plan search refuses what it does not know, and plans that fit nowhere, in one line") {
  check_refused(words + Words{"--machine", "laptop"}, "laptop has one host of 2 devices");
  check_refused(words + Words{"--schedule", "recycle"}, "--schedule recycle: only schedules are");
  check_refused(words + Words{"--model", "gpt4"}, "gpt4: no such model");
  check_refused(words + Words{"--machine", "laptop2"}, "laptop2");
  check_refused(words + Words{"--schedule", "2fb"}, "there is no schedule \"2fb\"");
  check_refused({"plan", "search", "--order"}, "--order: the order of a layout's cells");
  const std::string comma = "nothing is before or after a comma; leave the comma out";
  check_refused(words + Words{"--codec", "none,"}, "--codec: " + comma);
  check_refused(words + Words{"--codec-channel", ",none"}, "--codec-channel: " + comma);
  check_refused(words + Words{"--schedule", "1f1b,"}, "--schedule: " + comma);
  check_refused(words + Words{"--prune", "0,,0.5"}, "--prune: " + comma);
  check_refused(words + Words{"--codec", "none,quantize:9"}, "9 can't be the number of bits");
  check_refused(words + Words{"--codec-channel", "lowrank:4"}, "this codec is for gradients");
  check_refused(words + Words{"--dtype", "f64"}, "--dtype: expected one of f32, bf16; got f64");
  check_refused(words + Words{"--memory", "0"}, "--memory: expected a number, 1 or more, got 0");
  check_refused(
      words + Words{"--memory", "1e8"},
      "no plan fits the 100 MB of each of 4 devices; the nearest, 1f1b, 2 x 2, 1 a "
      "microbatch, recompute, ZeRO 1, takes 1.34 GB, 1.24 GB too much, on rank 0 while it "
      "saves a checkpoint");
  const Words alone = words + Words{"--devices", "1"};
  check_refused(
      alone, "no schedule divides --batch 16 over --devices 1: replicas and microbatches divide");
  const std::string none = " and sends what these codecs encode (low-rank ones encode no pruned";
  check_refused(alone + Words{"--schedule", "data", "--codec", "quantize:4"}, "1" + none);
  check_refused(words + Words{"--codec", "lowrank:4", "--prune", "0.5"}, "4" + none);
}
