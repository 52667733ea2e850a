// Two plans side by side, and what `plan verify` says in sentences.
#include "tests/examples/plan_program.h"

using namespace plangrad::tests;

namespace {

const Words size{"--stages", "4", "--microbatches", "8"};

}  // namespace

TEST_CASE("plan compare prints the numbers of two schedules, and their differences") {
  const Words words = Words{"plan", "compare", "gpipe", "1f1b"} + size;
  const std::string text = output_of(words);
  CHECK_THAT(text, Contains("gpipe       1f1b        difference"));
  CHECK_THAT(text, Contains("\npeak forwards              8           4           -4, x 0.5\n"));
  CHECK_THAT(text, Contains("\nmakespan                   33 s        33 s\n"));
  CHECK(text.rfind(", x ") < text.find("\nranks "));  // numbers that differ come first
  const nlohmann::json both = json_of(words);
  CHECK(both["difference"]["peak forwards"] == -4);
  CHECK(both["difference"]["makespan"] == 0);
  CHECK(both["a"]["name"] == "gpipe");
  CHECK(both["b"]["facts"] == json_of(Words{"plan", "verify", "--schedule", "1f1b"} + size));
}

TEST_CASE("plan compare gives both sides the updates in which the longer one shows its gain") {
  const nlohmann::json both = json_of(Words{"plan", "compare", "1f1b", "2bw"} + size);
  CHECK(both["a"]["facts"]["bubble"] > 2.4 * both["b"]["facts"]["bubble"].get<double>());
  CHECK(both["b"]["facts"] == json_of(Words{"plan", "verify", "--schedule", "2bw"} + size));
  const Words once = Words{"plan", "compare", "1f1b", "2bw", "--steps", "1"} + size;
  CHECK(json_of(once)["difference"]["bubble"] == 0);
}

TEST_CASE("a backward takes as long as both of its parts, where nobody says otherwise") {
  const Words parts{"--input-part", "1", "--weight-part", "1,1,2,1"};
  const auto makespan = [&](const Words& more) {
    return json_of(Words{"plan", "compare", "1f1b", "zb-h1"} + size +
                   more)["a"]["facts"]["makespan"];
  };
  CHECK(makespan(parts) == makespan({"--backward", "2,2,3,2"}));
  CHECK(makespan(parts + Words{"--backward", "1"}) == makespan({"--backward", "1"}));
  CHECK(makespan({"--input-part", "1"}) == makespan({}));
}

TEST_CASE("plan compare takes files, and names what is neither file nor schedule") {
  const Folder folder;
  const Words show{"plan", "show", "--stages", "2", "--microbatches", "4", "--steps", "4"};
  const std::string file = folder.write("2bw.plan", output_of(show + Words{"--schedule", "2bw"}));
  const Words words{"plan", "compare", file, "1f1b", "--stages", "2", "--microbatches", "4"};
  CHECK(json_of(words)["difference"]["updates"] == 0);            // four, as the file has
  for (const char* schedule : {"1f1b", "data", "interleaved"}) {  // as large as the file, by itself
    const Finished alone = succeeded(run({"plan", "compare", schedule, file, "--json"}));
    CHECK(alone.errors.empty());
    for (const char* size : {"ranks", "stages", "microbatches of an update", "updates"})
      CHECK(nlohmann::json::parse(alone.output)["difference"][size] == 0);
  }
  CHECK(run({"plan", "compare", file, "1f1b", "--stages", "4"}).errors ==
        "note: the plans differ in size: ranks 2 and 4, stages 2 and 4\n");
  const std::string text = output_of(words);
  CHECK_THAT(text, Contains("\nstaleness "));
  CHECK_THAT(text, Contains(" points\n"));  // bubbles differ
  check_ended(run({"plan", "compare", "gpipe", "1f1", "--stages", "2"}), 2,
              "1f1: is neither a schedule nor a file with a plan; did you mean");
}

TEST_CASE("plan verify says in sentences what it has proved") {
  const Words steps{"--steps", "3"};
  const std::string one = output_of(Words{"plan", "verify", "--schedule", "1f1b"} + size + steps);
  CHECK(one.starts_with("verified\nNo deadlock: "));
  CHECK_THAT(one, Contains("\nEvery gradient is summed once: "));
  CHECK_THAT(one, Contains("\nEach gradient is taken on the newest weights: staleness 0"));
  CHECK_THAT(one, Contains("\nRank 0 keeps the activations of 4 forwards (1 model's worth), the "
                           "most; others down to 1.\n"));
  CHECK_THAT(one, Contains("\nhang free             yes\n"));
  const std::string two = output_of(Words{"plan", "verify", "--schedule", "2bw"} + size + steps);
  CHECK_THAT(two, Contains("weights that are 1 update old when it is applied: staleness 1."));
  CHECK_THAT(two, Contains("\nEvery rank keeps 2 versions of a stage's weights at once.\n"));
  const std::string drift = output_of(Words{"plan", "verify", "--schedule", "paci"} + size + steps);
  CHECK_THAT(drift, Contains("newer than its forward's: drift 1."));
  const std::string shards =
      output_of({"plan", "verify", "--schedule", "data", "--data-parallel", "2", "--zero", "2"});
  CHECK_THAT(shards, Contains("ZeRO 2: a rank keeps 1/2 of gradients and the optimizer's state."));
  CHECK_THAT(output_of(Words{"plan", "simulate", "--schedule", "1f1b"} + size),
             Contains("The bubble is the share of"));
}

TEST_CASE("a forward that runs again is told from the first in text") {
  const std::string text = output_of({"plan", "draw", "--schedule", "gpipe", "--stages", "2",
                                      "--microbatches", "2", "--recompute"});
  CHECK_THAT(text,
             Contains("0F0 ") && Contains("0f0 ") && Contains("\nf: a forward that runs again"));
  CHECK_THAT(output_of({"plan", "draw", "--schedule", "gpipe", "--stages", "2"}),
             !Contains("f: a"));
}
