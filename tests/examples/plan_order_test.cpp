// `plan rows`, `plan order` and `plan place`: what they print, what else reads it, and what they
// refuse in one line.
// Not here: which orders and placements these are (tests/parallel/planner). Chapter 06.
#include "tests/examples/plan_program.h"
#include "tests/folders.h"

using namespace plangrad::tests;

namespace {

/// What `plan lower` makes of what a command prints.
std::string lowered(const Words& words) {
  Folder folder;
  return output_of({"plan", "lower", folder.write("rows.txt", output_of(words))});
}

}  // namespace

TEST_CASE("plan rows prints rows that can be lowered, such as those of 1F1B") {
  const Words words{"plan", "rows", "--stages", "4", "--microbatches", "8", "--ahead", "4,3,2,1"};
  CHECK(lowered(words) ==
        output_of({"plan", "show", "--schedule", "1f1b", "--stages", "4", "--microbatches", "8"}));
  CHECK_THAT(output_of({"plan", "rows", "--place", "0,1,1,0", "--priorities", "I,F,W"}),
             Contains("\n0F0v0 3F0v0 3I0v0 3W0v0 0I0v0 0W0v0\n1F0v0 2F0v0 2I0v0 "));
}

TEST_CASE("plan order prints an order, its bound, and the best schedule that keeps no more") {
  const Words words{"plan",    "order",      "--stages", "4",       "--microbatches",
                    "4",       "--split",    "--most",   "4,3,2,1", "--forward",
                    "3,1,1,3", "--backward", "6,2,2,6"};
  const std::string output = output_of(words);
  CHECK_THAT(
      output,
      Contains("# An update takes 46 s, and no order less than 46 s: none is faster.\n"
               "# Ranks keep at most 4 3 2 1.\n"
               "# Of the schedules that keep no more, 1f1b is the fastest: 51 s, 10.9% more."));
  CHECK_THAT(lowered(words), Contains("stages 4 per_step 4 steps 1"));
  CHECK_THAT(output_of({"plan", "order", "--stages", "2", "--microbatches", "4", "--step", "50"}),
             Contains("# An update takes 65 s, and no order less than 65 s: none is faster.\n") &&
                 Contains("\n# Of all schedules, "));
  const nlohmann::json json = json_of(words);
  CHECK(json["seconds"] == 46);
  CHECK(json["bound"] == 46);
  CHECK(json["schedule"]["name"] == "1f1b");
  CHECK(output.starts_with(json["rows"].get<std::string>()));
  const Words folded{"plan", "order", "--place", "0,1,1,0", "--microbatches", "4", "--most", "2"};
  CHECK_THAT(output_of(folded), Contains("# No schedule has these stages on these ranks and keeps "
                                         "no more.\n") &&
                                    Contains("% above the fastest.\n"));
}

TEST_CASE("plan order takes seconds and bytes from a model and a machine") {
  const Words words{"plan",     "order",       "--model", "gpt2-124m",      "--machine",
                    "v100-aws", "--stages",    "4",       "--dtype",        "bf16",
                    "--device", "gpu",         "--split", "--clip",         "--beam",
                    "100",      "--sequences", "2",       "--microbatches", "4"};
  const nlohmann::json free = json_of(words);
  CHECK(free["rows"].get<std::string>().starts_with("stages 4 per_step 4 steps 1 clip 1 tied 0,3"));
  CHECK(free["kept"][0] > 1e8);
  CHECK(free["bound"] > 0.01);
  CHECK(free["schedule"]["seconds"] >= free["seconds"]);
  const std::string half = std::to_string(free["kept"][0].get<double>() / 2);
  const nlohmann::json limited = json_of(words + Words{"--most", half});
  CHECK(limited["kept"][0] <= free["kept"][0].get<double>() / 2);
  CHECK(limited["seconds"] > free["seconds"]);
  CHECK_THAT(lowered(words), Contains("Rnv1@"));
  check_refused(words + Words{"--most", "1e6"}, "let it keep at least that");
  const Words two = words + Words{"--stages", "2"};
  CHECK(json_of(two + Words{"--cuts", "10"})["kept"][0] > json_of(two)["kept"][0]);
}

TEST_CASE("plan rows and plan order refuse what can't be in one line") {
  check_refused({"plan", "order"}, "give --stages N, or --place with the rank of each stage");
  check_refused({"plan", "order", "--stages", "2", "--cuts", "1"}, "--cuts requires --model");
  check_refused({"plan", "rows", "--stages", "2", "--tied", "--model", "resnet18"},
                "--tied: the first and last stage of resnet18 share no tensor");
  check_refused({"plan", "rows", "--stages", "4", "--priorities", "B,I,F,W"},
                "--priorities B,I,F,W: expected F and B, or F with the two parts of a backward");
  for (const char* of_updates : {"--step", "--weight-bytes", "--reduction", "--hosts"})
    check_refused({"plan", "rows", "--stages", "2", of_updates, "1"}, of_updates);
  check_refused({"plan", "order", "--stages", "4", "--place", "0,1"},
                "--stages 4 and a --place with 2 values");
  check_refused({"plan", "order", "--place", "0,1,0", "--most", "1"}, "rank 0 may keep 1, and a");
  check_refused({"plan", "order", "--stages", "2", "--forward", "-1"}, "--forward: expected");
  check_refused({"plan", "order", "--stages", "2", "--input-part", "1"}, "use --split with plan");
  check_refused({"plan", "order", "--stages", "4", "--microbatches", "513"},
                "an update of 4104 cells is too large to search; 4096 are possible");
}

TEST_CASE("plan place prints devices and their operators, and refuses what is no graph") {
  const std::string block = clone_path("examples/graphs/gpt-block.txt");
  const Words words{"plan", "place", block, "--devices", "2", "--bandwidth", "25e9"};
  CHECK_THAT(
      output_of(words),
      Contains("device 1      2.46 ms  norm2 up gelu down sum2\nThe busiest device takes "
               "2.46 ms for an input: the least of placements whose outputs go to later devices "
               "only, by 17 down-closed sets."));
  const nlohmann::json json = json_of(words);
  CHECK(json["devices"][0]["operators"].size() == 7);
  CHECK(json["devices"][1]["load"] == json["most"]);
  Folder folder;
  auto refused = [&](const std::string& text, const std::string& part) {
    const std::string file = folder.write("graph.txt", text);
    check_refused({"plan", "place", file}, file + part);
  };
  refused("# none\n", ": no operators; expected lines of NAME SECONDS BYTES [INPUT ...]");
  refused("a 1 2\n\nb 1\n", ", line 3: expected NAME SECONDS BYTES [INPUT ...]");
  refused("a 1 2\nb -1 2 a\n", ", line 2: expected a number, 0 or more, got -1");
  refused("a 1 2 b\nb 1 2\n", ", line 1: the input b of a does not stand above");
  refused("a 1 2\na 1 2\n", ", line 2: a stands above, too");
}
