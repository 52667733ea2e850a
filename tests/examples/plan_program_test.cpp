// The program `plan` as a user runs it: every schedule through every command, plans in files and
// pipes, and bad input. Not here: what schedules, rules, times and pictures are (tests/parallel).
#include <regex>

#include "nn/checkpoint/file.h"
#include "parallel/schedules/schedule.h"
#include "tests/catch.h"
#include "tests/examples/programs.h"
#include "tests/parallel/support/ordinary_schedules.h"

using namespace paragrad::tests;
namespace parallel = paragrad::parallel;

namespace {

constexpr int stages = 4, micros = 4, steps = 3;
const Words sizes{"--stages", "4", "--microbatches", "4", "--steps", "3"};

Words plan(const std::string& command, const std::string& schedule) {
  return Words{"plan", command, "--schedule", schedule} + sizes;
}

/// What a command prints that succeeds.
std::string output_of(const Words& words) {
  CAPTURE(words);
  Finished result = run(words);
  CHECK(result.status == 0);
  CHECK(result.errors.empty());
  return result.output;
}

nlohmann::json json_of(const Words& words) {
  return nlohmann::json::parse(output_of(words + Words{"--json"}));
}

/// Checks that a command ends with a line that begins with "error:" and holds `part`.
void check_refused(const Words& words, const std::string& part, long lines = 1) {
  CAPTURE(words);
  Finished result = run(words);
  CHECK(result.status == 1);
  CHECK(result.output.empty());
  CHECK(result.errors.starts_with("error: "));
  CHECK(std::count(result.errors.begin(), result.errors.end(), '\n') == lines);
  CHECK_THAT(result.errors, Contains(part));
}

/// Two ranks that wait for each other: one has its first backward before its second forward, the
/// other has its second forward first.
const std::string hanging =
    "stages 2 per_step 2 steps 1 # as a user would write it\n\n"
    "0F0v0 0a0>1 0g0<1 0B0v0 0F1v0 0a1>1 0g1<1 0B1v0 0Sv1\n"
    "0a0<0 1F0v0 0a1<0 1F1v0 1B0v0 0g0>0 1B1v0 0g1>0 1Sv1\n";

std::string replaced(std::string text, const std::string& old, const std::string& with) {
  return text.replace(text.find(old), old.size(), with);
}

}  // namespace

TEST_CASE("plan show prints the text form of every schedule's plan") {
  for (const auto& [name, make] : ordinary_schedules()) {
    parallel::Layout layout{.stages = stages, .microbatches = micros, .steps = steps};
    CHECK(output_of(plan("show", name)) == print(parallel::make_plan(name, layout)));
    layout = {stages, 2, micros, steps, 5, true, true, true};
    CHECK(output_of(plan("show", name) + Words{"--data-parallel", "2", "--first", "5",
                                               "--recompute", "--clip", "--tied"}) ==
          print(parallel::make_plan(name, layout)));
  }
}

TEST_CASE("plan show adds a timetable in comments on request and on a terminal") {
  const Words words = plan("show", "gpipe");
  const std::string text = output_of(words), table = output_of(words + Words{"--table"});
  CHECK(table.starts_with(text));
  CHECK_THAT(table, Contains("\n# rank 0  0F0  0F1  0F2  0F3  .... .... .... .... .... .... 0B0 "));
  CHECK(parallel::parse(table) == parallel::parse(text));
  CHECK_THAT(run_on_terminal(words).output, Contains("\n# rank 3  .... .... .... 3F0  3F1 "));
  CHECK_THAT(output_of(words + Words{"--table", "--columns", "5"}),
             Contains("\n# rank 0  0F0 0F1 0F2 0F3 ...\n"));
}

TEST_CASE("plan verify --json has the facts of every schedule") {
  const Words keys{"hang_free",
                   "channel_capacity",
                   "staleness",
                   "live_versions",
                   "messages",
                   "peak_inputs",
                   "peak_microbatches",
                   "bubble",
                   "makespan",
                   "bytes",
                   "verified",
                   "busy",
                   "peak_activations",
                   "time_steps",
                   "ranks",
                   "stages",
                   "per_step",
                   "versions_in_use",
                   "fresh_reads",
                   "breakdown",
                   "critical_path"};
  for (const auto& [name, make] : ordinary_schedules()) {
    nlohmann::json facts = json_of(plan("verify", name));
    CHECK(facts.size() == keys.size());
    for (const std::string& key : keys) CHECK(facts.contains(key));
    CHECK(facts["verified"] == true);
    CHECK(facts["hang_free"] == true);
    CHECK(facts["channel_capacity"] == 0);
    CHECK(json_of(plan("simulate", name)) == facts);
  }

  nlohmann::json gpipe = json_of(plan("verify", "gpipe"));
  CHECK(gpipe["peak_microbatches"] == nlohmann::json{4, 4, 4, 4});
  CHECK(gpipe["bubble"] == Approx((stages - 1.0) / (micros + stages - 1)));
  CHECK(gpipe["makespan"] == Approx(steps * 2 * (micros + stages - 1)));
  CHECK(gpipe["messages"] == nlohmann::json{{"a", 36}, {"g", 36}});
  CHECK(json_of(plan("verify", "1f1b"))["peak_microbatches"] == nlohmann::json{4, 3, 2, 1});
  CHECK(json_of(plan("verify", "pipedream"))["live_versions"] == nlohmann::json{4, 3, 2, 1});
  nlohmann::json two_versions = json_of(plan("verify", "2bw"));
  CHECK(two_versions["staleness"] == 1);
  CHECK(two_versions["live_versions"] == nlohmann::json{2, 2, 2, 2});
  CHECK(two_versions["versions_in_use"] == nlohmann::json{2, 2, 2, 2});
  CHECK(two_versions["fresh_reads"] == nlohmann::json{"0000", "0000", "0000", "0000"});
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
    const nlohmann::json facts = json_of(
        {"plan", "verify", "--schedule", "cyclic-v2", "--stages", "8", "--setting", form.setting});
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

TEST_CASE("plan show --json has the header, the rows as words, and the facts") {
  for (const auto& [name, make] : ordinary_schedules()) {
    nlohmann::json shown = json_of(plan("show", name));
    CHECK(shown.size() == 3);
    CHECK(shown["facts"] == json_of(plan("verify", name)));
    std::string text;  // the same plan, written from what was shown
    for (const auto& [key, value] : shown["header"].items()) {
      if (key == "stages" || value.empty()) continue;
      std::string words = value.is_boolean() ? (value ? "1" : "0") : value.dump();
      words = std::regex_replace(words, std::regex("\\],\\["), "/");
      text += ' ' + key + ' ' + std::regex_replace(words, std::regex("[\\[\\]]"), "");
    }
    text = "stages " + shown["header"]["stages"].dump() + text + '\n';
    for (const auto& row : shown["rows"]) {
      for (const std::string word : row) text += word + ' ';
      text += '\n';
    }
    CHECK(print(parallel::parse(text)) == output_of(plan("show", name)));
  }
  Folder folder;
  const std::string bad = folder.write("bad.plan", hanging);
  nlohmann::json shown = json_of({"plan", "show", bad});
  CHECK(shown["rows"][1][0] == "0a0<0");
  CHECK(shown["facts"]["verified"] == false);
  CHECK(shown["facts"]["rule"] == "hang");
  check_refused(plan("show", "gpipe") + Words{"--json", "--table"}, "leave out --table");
}

TEST_CASE("plan draw --alive is for figures") {
  Folder folder;
  const Words draw = plan("draw", "2bw") + Words{"--alive"};
  CHECK_THAT(output_of(draw + Words{"--out", folder / "plan.svg"}), Contains("wrote"));
  check_refused(draw, "add --out FILE.svg");
  for (const char* name : {"plan.html", "plan.json", "plan.txt"}) {
    check_refused(draw + Words{"--out", folder / name}, "--alive changes a figure");
    CHECK_FALSE(std::filesystem::exists(folder / name));
  }
}

TEST_CASE("plan draw makes figures of one size and scale, if asked for") {
  Folder folder;
  for (const char* schedule : {"2bw", "1f1b"}) {
    const std::string file = folder / (schedule + std::string(".svg"));
    output_of(plan("draw", schedule) + Words{"--width", "700", "--seconds", "50", "--out", file});
    const std::string figure = paragrad::nn::read_file(file);
    CHECK_THAT(figure, Contains("width=\"700\"") && Contains(">50</text>"));
  }
  for (const Words& size : {Words{"--width", "700"}, Words{"--seconds", "50"}})
    check_refused(plan("draw", "2bw") + size, size[0] + " changes a figure; add --out FILE.svg");
  check_refused(plan("draw", "2bw") + Words{"--width", "90", "--out", folder / "small.svg"},
                "give it more width");
}

TEST_CASE("plan draw says the setting of a cyclic schedule") {
  Folder folder;
  for (const std::string setting : {"data", "pipeline"}) {
    Words words{"plan",     "draw", "--schedule", "cyclic-v2",
                "--stages", "3",    "--out",      folder / "plan.html"};
    if (setting != "data") words = words + Words{"--setting", setting};
    CHECK_THAT(output_of(words), Contains("plan.html: cyclic-v2 (" + setting + "), makespan"));
    CHECK_THAT(paragrad::nn::read_file(folder / "plan.html"),
               Contains("<h1>cyclic-v2 (" + setting + ")</h1>"));
  }
}

TEST_CASE("plan draw --json has the facts beside the file that it wrote") {
  Folder folder;
  const std::string file = folder / "picture.svg";
  nlohmann::json facts = json_of(plan("draw", "2bw") + Words{"--out", file});
  CHECK(facts["file"] == file);
  CHECK(paragrad::nn::read_file(file).starts_with("<svg"));
  facts.erase("file");
  CHECK(facts == json_of(plan("verify", "2bw")));
  check_refused(plan("draw", "2bw") + Words{"--json"}, "give --out FILE");
}

TEST_CASE("plan verify and simulate print readable lines") {
  const std::string verified = output_of(plan("verify", "1f1b"));
  CHECK(verified.starts_with("verified\n"));
  CHECK_THAT(verified, Contains("\npeak microbatches     4 3 2 1\n"));
  CHECK_THAT(verified, Contains("\nlive versions         1 on every rank\n"));
  CHECK_THAT(verified, Contains("\nmessages              36 a, 36 g\n"));
  CHECK_THAT(verified, Contains("\nbubble                42.9%\n"));
  CHECK_THAT(output_of(plan("verify", "1f1b") + Words{"--recompute"}),
             Contains("\npeak microbatches     1 on every rank\npeak inputs           4 3 2 1\n"));
  CHECK_THAT(verified, !Contains("versions in use") && !Contains("reads of new weights"));
  Words words{"plan", "verify", "--schedule", "cyclic-v2", "--stages"};
  CHECK_THAT(output_of(words + Words{"3"}),
             Contains("\nlive versions         2 on every rank\n"
                      "versions in use       1 on every rank\n"
                      "reads of new weights  6 of 9; the stages of each microbatch: 001 011 111\n"
                      "peak microbatches     3 on every rank\n"));
  CHECK_THAT(output_of(words + Words{"17"}), Contains("\nreads of new weights  153 of 289\n"));
  const std::string simulated = output_of(plan("simulate", "2bw") + Words{"--forward", "1,1,1,0"});
  CHECK(simulated.starts_with("makespan  "));
  CHECK_THAT(simulated, Contains("\nbusy  ") && Contains("\nbytes                 0 B\n"));
  CHECK_THAT(output_of({"plan", "verify", "--schedule", "1f1b", "--stages", "20"}),
             Contains("busy                  5% on every rank\n"));
  CHECK_THAT(
      output_of({"plan", "verify", "--schedule", "1f1b", "--stages", "20", "--microbatches", "20"}),
      Contains("\npeak microbatches     1 to 20\n"));
}

TEST_CASE("plan simulate tells where the time goes, and what sets the plan's length") {
  const Words words{"plan",           "simulate", "--schedule",      "data",
                    "--stages",       "1",        "--data-parallel", "2",
                    "--microbatches", "1",        "--backward",      "2",
                    "--step",         "0.5",      "--latency",       "0.25",
                    "--slowness",     "1,2"};
  // The fast rank waits 3 s for the slow one, then both for 2 messages in a row, 0.25 s each.
  CHECK_THAT(output_of(words), Contains("\ncritical path         7.5 s: 6 s compute, 1 s update, "
                                        "500 ms collectives; 3 computations, 1 collective, on 1 "
                                        "rank\n\n"));
  CHECK_THAT(output_of(words), Catch::EndsWith(R"(

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

TEST_CASE("plan draw marks the critical path where it is asked to, and a figure can show it") {
  Folder folder;
  for (const char* name : {"x.svg", "x.html"}) {
    const Words words = plan("draw", "1f1b") + Words{"--out", folder / name};
    output_of(words);
    const std::string plain = paragrad::nn::read_file(folder / name);
    CHECK_THAT(plain, !Contains("critical"));
    output_of(words + Words{"--critical-path"});
    CHECK_THAT(paragrad::nn::read_file(folder / name), Contains(">critical path<"));
  }
  for (const Words& out : {Words{}, Words{"--out", folder / "x.txt"}})
    check_refused(plan("draw", "1f1b") + out + Words{"--critical-path"},
                  "add --out FILE.svg or FILE.html");
}

TEST_CASE("plan verify and simulate tell what a time step holds") {
  const std::string file = PARAGRAD_SOURCE_DIR "/tests/parallel/plans/cyclic_v2_data.plan";
  nlohmann::json facts = json_of({"plan", "verify", file});
  CHECK(facts["peak_activations"] == 6);
  const nlohmann::json& steps = facts["time_steps"];
  CHECK(steps["seconds"] == 1);
  CHECK(steps["first"] == 0);
  CHECK(steps["activations"] == nlohmann::json{1, 2, 4, 5, 6, 6});
  CHECK(steps["gradient_sums"].size() == 6);
  CHECK(steps["visits_of_a_stage"] == nlohmann::json{{"least", 0}, {"most", 1}});
  CHECK_THAT(output_of({"plan", "simulate", file}), !Contains("time step"));
  for (const char* command : {"verify", "simulate"}) {
    const std::string said = output_of({"plan", command, file, "--time-steps"});
    CHECK_THAT(said, Contains("\ntime step             1 s\npeak activations      6\n"));
    CHECK_THAT(said, Contains("\nin the middle         time steps 0 to 5\n"));
    CHECK_THAT(said, Contains("\nactivations           1 to 6, 4 on average\n"));
    CHECK_THAT(said, Contains("\nbytes sent            0 B in each\n"));
  }
  const Words free{"plan", "verify", file, "--forward", "0", "--backward", "0"};
  CHECK_FALSE(json_of(free).contains("time_steps"));
  check_refused(free + Words{"--time-steps"}, "no forward or backward takes time", 1);
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
  CHECK(json_of(words + costs + lists) == facts);
  CHECK(json_of(words + costs + Words{"--latency", "1"})["makespan"] > 4.0);
  CHECK(json_of(words + costs + Words{"--step", "0,0,2"})["makespan"] > 2.0);
  CHECK(json_of(words + costs + Words{"--slowness", "1,1,10"})["makespan"] > 6 * 0.3);
  CHECK(json_of(words + costs + Words{"--slowness", "1,1,1"}) == facts);
  CHECK(json_of(words + Words{"--data-parallel", "2", "--weight-bytes", "100,200,300"})["bytes"] ==
        2 * 600);  // an all-reduce of two ranks: each sends the weights once
}

TEST_CASE("plan draw writes every schedule in every form, and says so") {
  Folder folder;
  for (const auto& [name, make] : ordinary_schedules()) {
    auto drawn = [&](const std::string& ending) {
      const std::string file = folder / (name + ending);
      CHECK_THAT(output_of(plan("draw", name) + Words{"--out", file}),
                 Contains("wrote " + file + ": " + name));
      return paragrad::nn::read_file(file);
    };
    CHECK(drawn(".svg").starts_with("<svg"));
    const std::string page = drawn(".html");
    CHECK(page.starts_with("<!DOCTYPE html>"));
    CHECK_THAT(page, Contains("<h1>" + name + "</h1>") && Contains("<svg") && Contains("bubble"));
    CHECK(nlohmann::json::parse(drawn(".json")).contains("traceEvents"));
    CHECK(drawn(".txt") == output_of(plan("draw", name)));
    CHECK_THAT(drawn(".txt"), Contains("rank 0  0F0"));
  }
}

TEST_CASE("a plan's file can be verified, simulated and drawn, and goes through a pipe") {
  Folder folder;
  const std::string program = paragrad::tests::program("plan");
  for (const auto& [name, make] : ordinary_schedules()) {
    const std::string text = output_of(plan("show", name));
    const std::string file = folder.write(name + ".plan", text);
    CHECK(output_of({"plan", "show", file}) == text);
    CHECK(json_of({"plan", "verify", file}) == json_of(plan("verify", name)));
    CHECK(output_of({"plan", "simulate", file}) == output_of(plan("simulate", name)));
    CHECK(output_of({"plan", "draw", file}) == output_of(plan("draw", name)));
    const std::string show = program + " show --table " + file, verify = program + " verify -";
    CHECK(output_of({"/bin/sh", "-c", show + " | " + verify}) == output_of(plan("verify", name)));
  }
}

TEST_CASE("a plan that breaks a rule is refused, with its rule and cell") {
  Folder folder;
  const std::string good = output_of(plan("show", "1f1b"));
  const std::string file = folder.write("bad.plan", replaced(good, " 1F0v0", ""));
  for (const char* command : {"verify", "simulate", "draw"}) {
    check_refused({"plan", command, file}, "error: send: rank 1, 1a0>2: ", 2);
    check_refused({"plan", command, file}, "\n  rank 1: 0a0<0 0a1<0 [1a0>2]", 2);
  }
  CHECK(output_of({"plan", "show", file}) == paragrad::nn::read_file(file));

  Finished result = run({"plan", "verify", "--json", file});
  CHECK(result.status == 1);
  CHECK(result.errors.empty());
  nlohmann::json facts = nlohmann::json::parse(result.output);
  CHECK(facts["verified"] == false);
  CHECK(facts["rule"] == "send");
  CHECK(facts["rank"] == 1);
  CHECK(facts["index"] == 2);
  CHECK_THAT(facts["message"].get<std::string>(), Contains("[1a0>2]"));
  CHECK_FALSE(facts.contains("hang_free"));  // nobody knows
}

TEST_CASE("a plan that hangs says so to people and to programs") {
  Folder folder;
  const std::string file = folder.write("hanging.plan", hanging);
  Finished people = run({"plan", "verify", file});
  CHECK(people.status == 1);
  CHECK(people.errors.starts_with("error: hang: rank "));
  Finished programs = run({"plan", "verify", file, "--json"});
  CHECK(programs.status == 1);
  nlohmann::json facts = nlohmann::json::parse(programs.output);
  CHECK(facts["rule"] == "hang");
  CHECK(facts["hang_free"] == false);
}

TEST_CASE("plan refuses requests that make no sense") {
  Folder folder;
  const std::string good = folder.write("good.plan", output_of(plan("show", "1f1b")));
  check_refused({"plan"}, "show, verify, simulate or draw");
  check_refused({"plan", "shwo"}, "not expected: shwo");
  for (const char* command : {"show", "verify", "simulate", "draw"}) {
    const Words words{"plan", command};
    check_refused(words, "no plan given: use --schedule NAME, or a plan's text file");
    check_refused(words + Words{"--stages", "4"}, "no plan given");
    check_refused(words + Words{"--schedule", "zigzag"},
                  "--schedule: zigzag not in {1f1b,2bw,cyclic-v1,cyclic-v2,data,gpipe,");
    for (const char* flag : {"--stages", "--data-parallel", "--microbatches", "--steps"})
      check_refused(words + Words{"--schedule", "gpipe", flag, "0"},
                    std::string(flag) + ": expected a whole number from 1 to 2147483647, got 0");
    check_refused(words + Words{"--schedule", "gpipe", "--first", "-1"}, "--first: expected");
    check_refused(words + Words{"--schedule", "gpipe", "--first", "100000000"},
                  "Use a smaller --first");
    check_refused(words + Words{"--schedule", "gpipe", "--stages", "100000", "--steps", "1001"},
                  "Use a smaller --first, --steps");
    check_refused(words + Words{good, "--microbatches", "4"},
                  good + " and --microbatches: give a plan file or schedule flags, not both");
    check_refused(words + Words{good, "--clip"}, " and --clip: ");
    check_refused(words + Words{good, good}, "not expected");
    check_refused(words + Words{folder / "none.plan"}, "no file ");
    check_refused(words + Words{"--no-such-flag"}, "--no-such-flag");
  }
}

TEST_CASE("plan refuses damaged plans, with file and line") {
  Folder folder;
  const std::string good = output_of(plan("show", "1f1b"));
  auto check_damaged = [&](const std::string& text, const std::string& part) {
    const std::string file = folder.write("damaged.plan", text);
    for (const char* command : {"show", "verify", "simulate", "draw"})
      check_refused({"plan", command, file}, file + ": " + part);
  };
  check_damaged(replaced(good, "2F0v0", "2X0v0"), "plan, line 4: \"2X0v0\" is not an instruction");
  check_damaged(replaced(good, "stages", "stage"),
                "plan, line 1: a plan's header has no \"stage\"");
  check_damaged("stages 4\n", "a plan begins with \"stages\", then has one line per rank");
  check_damaged("# nothing\n", "a plan begins with \"stages\", then has one line per rank");
}

TEST_CASE("plan refuses costs and files that can't be") {
  Folder folder;
  for (const char* command : {"verify", "simulate", "draw"}) {
    const Words words = plan(command, "2bw");
    check_refused(words + Words{"--forward", "1,2"}, "forward has 2 values for 4 stages");
    for (const char* list : {"", "1,,2", "1,", "x", "-1", "nan", "inf"})
      check_refused(words + Words{"--backward=" + std::string(list)}, "--backward");
    check_refused(words + Words{"--weight-bytes", "1.5"},
                  "--weight-bytes: expected a whole number from 0");
    check_refused(words + Words{"--bandwidth", "0"}, "--bandwidth: expected a number");
    check_refused(words + Words{"--latency", "-1"}, "--latency: expected a number from 0");
  }
  const Words draw = plan("draw", "2bw");
  for (const char* name : {"x.png", "x", "svg"})
    check_refused(draw + Words{"--out", folder / name}, "ends in .svg, .html, .json or .txt, got ");
  check_refused(draw + Words{"--out", folder / "none/x.svg"}, "can't write ");
  check_refused(draw + Words{"--forward", "0", "--backward", "0"}, "takes time");
  check_refused(plan("show", "2bw") + Words{"--forward", "1"}, "--forward");
  CHECK(files_in(folder / ".").empty());
}

TEST_CASE("the help of plan and of its commands lists what they take, with an example") {
  const Words schedule{"--schedule", "--stages", "--data-parallel", "--microbatches", "--recompute",
                       "--steps",    "--first",  "--clip",          "--tied"};
  const Words costs{"--forward", "--backward",         "--step",         "--bandwidth",
                    "--latency", "--activation-bytes", "--weight-bytes", "--slowness"};
  const std::map<std::string, Words> flags{
      {"show", schedule + Words{"FILE", "--table", "--columns", "--json"}},
      {"verify", schedule + costs + Words{"FILE", "--json"}},
      {"simulate", schedule + costs + Words{"FILE", "--json"}},
      {"draw",
       schedule + costs + Words{"FILE", "--out", "--columns", "--json", "--critical-path"}}};
  const std::string all = output_of({"plan", "--help"});
  CHECK_THAT(all, Contains("Usage: plan ") && Contains("\nExample: plan show "));
  for (const auto& [command, names] : flags) {
    CHECK_THAT(all, Contains("\n  " + command + " "));
    const std::string help = output_of({"plan", command, "--help"});
    CHECK_THAT(help, Contains("Usage: plan " + command + " [OPTIONS] [FILE]"));
    CHECK_THAT(help, Contains("\nExample: plan " + command + " "));
    for (const std::string& name : names) CHECK_THAT(help, Contains("\n  " + name));
  }
}

TEST_CASE("plan takes large requests") {
  CHECK(json_of({"plan", "verify", "--schedule", "2bw", "--stages", "64", "--microbatches",
                 "512"})["staleness"] == 0);  // of one step: nothing is stale yet
  Finished wide = run({"plan", "show", "--schedule", "1f1b", "--stages", "1024"});
  CHECK(wide.status == 0);
  CHECK(std::count(wide.output.begin(), wide.output.end(), '\n') == 1025);
}
