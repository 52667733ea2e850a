// From a run to the next one: `plan search --costs` reads what its computations took, and
// `--plan-from` trains a plan that was found. Not here: searches without runs
// (plan_search_test.cpp). Chapter 16.
#include <iterator>

#include "tests/examples/plan_program.h"
#include "tests/examples/runs.h"

using namespace plangrad::tests;
using Catch::Matchers::WithinRel;

namespace {

/// Searches with the times of the run in a folder.
Words search_with(const std::string& folder, const Words& more = {}) {
  return Words{"plan", "search", "--machine", "laptop", "--costs", folder} + more;
}

/// A machine on which a microbatch takes as long as it has examples.
Words even_machine(const Runs& runs) {
  return {"--machine", runs.folder.write("machine.txt",
                                         "machine even\ndevice memory 1e10 bandwidth 1e18 peak.f32 "
                                         "1e12\nhosts 8 devices\nlink wire between devices of a "
                                         "host 1e12 B/s 1e-6 s\n")};
}

/// A run of two stages whose times are known.
struct TimedRun : Runs {
  TimedRun() : Runs({"--layers", "3", "--batch", "8"}) {
    train("timed", {"--schedule", "gpipe", "--stages", "2", "--microbatches", "4",
                    "--pretend-compute", "0.01,0.02,0.005;0.02,0.04,0.005"});
  }
  Words search(const Words& more = {}) const { return search_with(path("timed"), more); }
  /// The file of a search's JSON.
  std::string searched(const Words& more = {}) const {
    return folder.write("search.json", json_of(search(more)).dump());
  }
};

nlohmann::json flags_of(const Runs& runs, const std::string& name) {
  return summary_of(runs.path(name))["config"]["flags"];
}

}  // namespace

TEST_CASE("a search takes seconds, model, batch and devices from a run") {
  const TimedRun run;
  CHECK(summary_of(run.path("timed"))["costs"]["forward"] == nlohmann::json{0.01, 0.02});

  const nlohmann::json found = json_of(run.search());
  CHECK(found["devices"] == 2);
  CHECK(found["batch"] == 8);
  CHECK(found["shape"]["--layers"] == 3);
  // On one device: four times the seconds of both stages, and their updates.
  const Words alone = even_machine(run) + Words{"--devices", "1"};
  const nlohmann::json one = json_of(run.search(alone))["best"][0];
  CHECK_THAT(one["seconds"].get<double>(), WithinRel(4 * (0.03 + 0.06) + 2 * 0.005, 0.01));
  const nlohmann::json twice = json_of(run.search(alone + Words{"--batch", "16"}))["best"][0];
  CHECK_THAT(twice["seconds"].get<double>(), WithinRel(8 * (0.03 + 0.06) + 2 * 0.005, 0.01));
}

TEST_CASE("a run of one stage that recomputes predicts its own seconds, and less without") {
  const Runs run{{"--layers", "3", "--batch", "8"}};
  run.train("again", {"--schedule", "data", "--recompute", "--pretend-compute", "0.01,0.03,0"});
  const nlohmann::json all =
      json_of(search_with(run.path("again"), even_machine(run)) + Words{"--rows", "99"})["best"];
  for (const nlohmann::json& each : all)
    CHECK_THAT(each["seconds"].get<double>(), WithinRel(each["recompute"] ? 0.04 : 0.03, 0.01));
  CHECK(all.back()["recompute"] == true);
}

TEST_CASE("kernels of a run take longer where its cores are shared by more ranks") {
  Runs run{{"--layers", "3", "--batch", "8"}};
  run.train("timed");
  nlohmann::json summary = summary_of(run.path("timed"));
  CHECK(summary["machine"]["threads"] == summary["machine"]["cores"]);
  summary["machine"]["threads"] = summary["machine"]["cores"] = 8;
  const auto computing = [&](int devices, int width) {
    run.folder.write("summary.json", summary.dump());
    const Words more = even_machine(run) + Words{"--rows", "9999", "--devices"};
    const nlohmann::json all =
        json_of(search_with(run.path(""), more) + Words{std::to_string(devices)})["best"];
    const auto is_whole = [&](const nlohmann::json& each) {
      return each["depth"] == 1 && each["width"] == width && each["sequences"] == 8 / width;
    };
    const auto found = std::ranges::find_if(all, is_whole);
    REQUIRE(found != all.end());
    return found->at("seconds").get<double>();
  };
  const double alone = computing(1, 1);
  CHECK(computing(2, 1) == alone);
  CHECK_THAT(computing(2, 2), WithinRel(alone, 0.2));
  CHECK_THAT(computing(5, 4), WithinRel(alone, 0.2));
  summary["machine"]["threads"] = 2;  // a limit, which other plans have, too
  CHECK(computing(1, 1) == alone);
  CHECK_THAT(computing(2, 2), WithinRel(alone / 2, 0.2));
  summary["machine"].erase("threads");
  CHECK_THAT(computing(2, 2), WithinRel(alone / 2, 0.2));
}

TEST_CASE("the command that a search prints runs, and trains the plan of its first row") {
  const TimedRun run;
  const std::string output = output_of(run.search());
  const std::string begin = "\nRun it: ";
  REQUIRE(output.find(begin) != output.npos);
  std::istringstream line(output.substr(output.find(begin) + begin.size()));
  Words words{std::istream_iterator<std::string>(line), {}};
  CHECK(words[0] == "train_gpt");
  CHECK_THAT(output,
             Contains(" --clip 0 ") && Catch::Matchers::EndsWith(" --data " + run.data + "\n"));
  run.succeed(words + Words{"--out", run.path("command"), "--steps", "2"});
  run.succeed({"train_gpt", "--plan-from", run.searched(), "--data", run.data, "--out",
               run.path("row"), "--steps", "2"});
  run.check_same("command", "row");
}

TEST_CASE("a plan that a search says fits runs under that cap of memory") {
  Runs run{{"--layers", "3", "--batch", "8"}};
  run.train("before");
  const nlohmann::json found = json_of(
      search_with(run.path("before"), {"--devices", "2", "--schedule", "1f1b", "--rows", "99"}));
  const std::string file = run.folder.write("search.json", found.dump());
  // Of the plans, whose order depends on time, that whose messages never wait at the fullest rank.
  const auto is_plain = [](const nlohmann::json& row) {
    const nlohmann::json& flags = row["flags"];
    return !flags.contains("--cuts") && !flags["--recompute"] && flags["--microbatches"] == 2;
  };
  const auto row = std::ranges::find_if(found["best"], is_plain);
  REQUIRE(row != found["best"].end());
  const auto bytes = (*row)["bytes"].get<std::int64_t>();
  const Words train{"train_gpt",   "--data", run.data,
                    "--plan-from", file,     "--stop-after",
                    "3",           "--row",  std::to_string(row - found["best"].begin() + 1)};
  // Scratch of kernels is 6% of these bytes.
  run.succeed(train + Words{"--out", run.path("capped"), "--memory-cap",
                            std::to_string(bytes * 102 / 100)});
  const Finished less = plangrad::tests::run(
      train + Words{"--out", run.path("less"), "--memory-cap", std::to_string(bytes * 9 / 10)});
  CHECK_THAT(less.errors, Contains("out of memory"));
}

TEST_CASE("the command has the text and the tokens of the run, as a shell takes them") {
  Runs run{{"--layers", "3", "--batch", "8", "--vocab", "bytes"}};
  run.data = run.folder.write("it's a text.txt", varied_text());
  run.train("bytes");
  const nlohmann::json found = json_of(search_with(run.path("bytes")));
  CHECK_THAT(found["command"].get<std::string>(),
             Catch::Matchers::EndsWith("it'\\''s a text.txt' --vocab bytes"));
  const std::string command = found["command"].get<std::string>() + " --steps 2 --out ";
  CHECK(plangrad::tests::run({"/bin/sh", "-c",
                              "cd " + run.path("") + " && " +
                                  program(command.substr(0, command.find(' '))) +
                                  command.substr(command.find(' ')) + run.path("again")})
            .status == 0);
}

TEST_CASE("a run takes a row by --plan-from, and other flags change it") {
  const TimedRun run;
  const std::string file = run.searched(
      {"--machine", "rtx3090x8", "--schedule", "1f1b", "--devices", "4", "--rows", "99"});
  const nlohmann::json rows = nlohmann::json::parse(std::ifstream(file))["best"];
  std::size_t row = 0;  // one that is cut by seconds
  while (row < rows.size() && !rows[row]["flags"].contains("--cuts")) ++row;
  REQUIRE(row < rows.size());
  const Words train{"train_gpt", "--plan-from", file,      "--row", std::to_string(row + 1),
                    "--data",    run.data,      "--steps", "2"};
  run.succeed(train + Words{"--out", run.path("row")});
  const nlohmann::json flags = flags_of(run, "row");
  for (const auto& [name, value] : rows[row]["flags"].items()) CHECK(flags[name] == value);
  CHECK_FALSE(flags.contains("--plan-from"));
  CHECK(flags["--cuts"] == rows[row]["cuts"]);
  const Words wider = train + Words{"--out", run.path("batch"), "--batch", "16"};
  CHECK(plangrad::tests::run(wider).errors == "");
  CHECK_THAT(
      plangrad::tests::run(wider + Words{"--vocab", "bytes", "--overwrite"}).errors,
      Contains(file + " has a vocabulary of 11 tokens, and this run one of 256: the plan's"));
  CHECK(flags_of(run, "batch")["--batch"] == 16);

  const auto check = [&](const Words& words, const std::string& part) {
    check_refused(words + Words{"--out", run.path("refused")}, part);
  };
  check(train + Words{"--layers", "6"}, "--layers 6: the model of --plan-from " + file +
                                            " has --layers 3; leave out one of the two");
  check(train + Words{"--row", "100"},
        "there is no row 100, it has " + std::to_string(rows.size()));
  check({"train_gpt", "--data", run.data, "--row", "2"}, "--row says which plan of --plan-from");
  check({"train_resnet", "--plan-from", file}, "its plans are for train_gpt");
  const auto from = [&](const std::string& text) {
    return Words{"train_gpt", "--data", run.data, "--plan-from", run.folder.write("x", text)};
  };
  check(from("{}"), "this is not what plan search --json prints");
  check(from("no"), "this is no JSON");
  check(from("<!DOCTYPE html>NaN"), "logged in where the site asks for it\n");
  check(
      from("{\"program\":\"train_gpt\",\"shape\":{},\"best\":[{\"flags\":{\"--lose\":\"0@1\"}}]}"),
      "--lose is no flag that a search writes");
}

TEST_CASE("costs that are no run's, or another model's, are refused in one line") {
  const TimedRun run;
  check_refused(run.search({"--model", "gpt2-124m"}),
                "the run trained another model than --model gpt2-124m");
  check_refused(run.search({"--dtype", "bf16"}), "--dtype bf16: --costs");
  check_refused({"plan", "search", "--machine", "laptop"}, "give --model NAME, or --costs RUN");
  const auto with_summary = [&](const std::string& text) {
    run.folder.write("summary.json", text);
    return search_with(run.path(""));
  };
  check_refused(search_with(run.path("none")), "this is not the folder of a run");
  check_refused(with_summary("{}"), "its summary.json has no costs");
  check_refused(with_summary("{\"costs\":{}}"), "its summary.json is damaged");
  nlohmann::json summary = summary_of(run.path("timed"));
  summary["costs"]["forward"] = {1, 2, 3};
  check_refused(with_summary(summary.dump()), "costs of 3 stages, and cuts of 2");
  const auto check_list = [&](const char* name, const nlohmann::json& list,
                              const std::string& refusal) {
    summary = summary_of(run.path("timed"));
    summary["costs"].erase("input_part");  // half of a backward, as these are pretended
    summary["machine"] = {{"cores", 2}, {"threads", 6}};
    summary["costs"][name] = list;
    check_refused(with_summary(summary.dump()),
                  std::string("its summary.json: costs: ") + name + ": " + refusal);
  };
  check_list("forward", nlohmann::json::array(), "expected a number, 0 or more, got nothing");
  check_list("backward", {1, -1}, "expected a number, 0 or more, got -1");
  check_list("forward", {0, 1}, "a stage takes no time");
  check_list("backward", {1, 0}, "a stage takes no time");
}
