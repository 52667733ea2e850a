// What plan refuses: plans that break a rule, damaged files, and flags that make no sense.
// Not here: the rules (tests/parallel/verifier).
#include "tests/examples/plan_program.h"

#include "nn/checkpoint/file.h"

using namespace plangrad::tests;

TEST_CASE("a plan that breaks a rule is refused, with its rule and cell") {
  Folder folder;
  const std::string good = output_of(small_plan("show", "1f1b"));
  const std::string file = folder.write("bad.plan", replaced(good, " 1F0v0", ""));
  for (const char* command : {"verify", "simulate", "draw"}) {
    check_refused({"plan", command, file}, "error: send: rank 1, 1a0>2: ", 2);
    check_refused({"plan", command, file}, "\n  rank 1: 0a0<0 0a1<0 [1a0>2]", 2);
  }
  CHECK(output_of({"plan", "show", file}) == plangrad::nn::read_file(file));

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
  const std::string file = folder.write("hanging.plan", hanging_plan);
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
  const std::string good = folder.write("good.plan", output_of(small_plan("show", "1f1b")));
  check_refused({"plan"}, "use one of show, verify, ");
  check_refused({"plan", "show", "2bw", "--stages", "2"}, "did you mean --schedule 2bw?");
  check_refused({"plan", "shwo"}, "there is no command shwo; did you mean show?");
  for (const char* command : {"show", "verify", "simulate", "draw"}) {
    const Words words{"plan", command};
    check_refused(words, "no plan given: use --schedule NAME, or a plan's text file");
    check_refused(words + Words{"--stages", "4"}, "no plan given");
    check_refused(words + Words{"--schedule", "zigzag"},
                  "--schedule: expected one of 1f1b, 2bw, cyclic-v1, cyclic-v2, data, dualpipe,");
    for (const char* flag : {"--stages", "--data-parallel", "--microbatches", "--steps"})
      check_refused(words + Words{"--schedule", "gpipe", flag, "0"},
                    std::string(flag) + ": expected a whole number, 1 or more, got 0");
    check_refused(words + Words{"--schedule", "gpipe", "--first", "-1"}, "--first: expected");
    check_refused(words + Words{"--schedule", "gpipe", "--first", "300000000"}, "of plan, --first");
    check_refused(words + Words{"--schedule", "gpipe", "--stages", "4", "--steps", "100000"},
                  "cells, and 2097152 are possible: use --steps 65536 or less");
    check_refused(words + Words{good, "--microbatches", "4"},
                  good + " and --microbatches: give a plan file or schedule flags, not both");
    check_refused(words + Words{good, "--clip"}, " and --clip: ");
    check_refused(words + Words{good, good}, "nothing takes the word " + good);
    check_refused(words + Words{folder / "none.plan"}, "no file ");
    check_refused(words + Words{"--no-such-flag"}, "--no-such-flag");
  }
  check_refused({"plan", "compare", good, good, "--stages", "4"}, " and --stages: give a plan ");
  const Words simulate{"plan", "simulate", good};
  for (const Words& words : {Words{"--sequences", "3"}, {"--dtype", "bf16"}, {"--threads", "3"}})
    check_refused(simulate + words, words[0] + " requires --model");
  check_refused(simulate + Words{"--devices", "0,1"}, "--devices requires --machine");
  const Words own{"plan", "simulate", "--schedule", "1f1b", "--stages", "2", "--microbatches", "2"};
  check_refused(own + Words{"--machine", "v100-aws", "--devices", "0,0"}, "ranks share device 0;");
  check_refused(own + Words{"--cuts", "1"}, "--cuts requires --model");
  check_refused(simulate + Words{"--hosts", "0,0,1,1"}, "--hosts: only --reduction hierarchical");
}

TEST_CASE("plan refuses damaged plans, with file and line") {
  const std::string endless = program("plan") + " verify - </dev/zero";
  check_ended(run({"/bin/sh", "-c", endless}), 2,
              "standard input: this is no plan: it has a zero byte");
  check_ended(run({"/bin/sh", "-c", "yes | " + program("plan") + " verify -"}), 2,
              "standard input: plan, line 1: the header ends after \"y\"");
  const std::string begin = "(echo 'stages 1 per_step 1 steps 1'; ", end = program("plan") + " ";
  for (const char* command : {"verify -", "show -"})
    for (const auto& [lines, why] :
         {std::pair("yes '# x'", "plan: it has more than 1048576 lines"),
          {"yes ''", "plan: it has more than 1048576 lines"},
          {"yes 0F0v0", "plan, line 10002: a plan has at most 10000 rows, one per rank"}})
      check_ended(run({"/bin/sh", "-c", begin + lines + ") | " + end + command}), 2,
                  std::string("standard input: ") + why);
  check_ended(run({"/bin/sh", "-c", begin + "yes '0F0v0 ' | tr -d '\\n') | " + end + "verify -"}),
              2, "or more than 33554432 bytes");
  Folder folder;
  const std::string good = output_of(small_plan("show", "1f1b"));
  auto check_damaged = [&](const std::string& text, const std::string& part) {
    const std::string file = folder.write("damaged.plan", text);
    for (const char* command : {"show", "verify", "simulate", "draw"})
      check_refused({"plan", command, file}, file + ": " + part);
  };
  check_damaged(replaced(good, "2F0v0", "2X0v0"), "plan, line 4: \"2X0v0\" is not an instruction");
  check_damaged(replaced(good, "stages", "stage"),
                "plan, line 1: a plan's header has no \"stage\"");
  check_damaged("stages 1 groups 0" + std::string(1 << 20, '/'),
                "plan, line 1: a header has at most 1048576 bytes, not 1048593");
  std::string cells = "stages 1\n0F0v0";
  for (int i = 0; i < 1 << 21; ++i) cells += " 0F0v0";
  check_damaged(cells, "plan, line 2: a plan has at most 2097152 cells");
  check_damaged("stages 4\n", "a plan begins with \"stages\", then has one line per rank");
  check_damaged("# nothing\n", "a plan begins with \"stages\", then has one line per rank");
}

TEST_CASE("plan refuses costs and files that can't be") {
  Folder folder;
  for (const char* command : {"verify", "simulate", "draw"}) {
    const Words words = small_plan(command, "2bw");
    check_refused(words + Words{"--forward", "1,2"}, "forward has 2 values for 4 stages");
    for (const char* list : {"", "1,,2", "1,", "x", "-1", "nan", "inf"})
      check_refused(words + Words{"--backward=" + std::string(list)}, "--backward");
    check_refused(words + Words{"--weight-bytes", "1.5"},
                  "--weight-bytes: expected a whole number, 0 or more");
    check_refused(words + Words{"--bandwidth", "0"}, "--bandwidth: expected a number");
    check_refused(words + Words{"--bandwidth", "1e9", "--machine", "laptop"},
                  "--bandwidth excludes --machine");
    check_refused(words + Words{"--latency", "-1"}, "--latency: expected a number, 0 or more");
  }
  const Words draw = small_plan("draw", "2bw");
  for (const char* name : {"x.png", "x", "svg"})
    check_refused(draw + Words{"--out", folder / name},
                  "ends in .svg or .html or .json or .txt, got ");
  check_refused(draw + Words{"--forward", "0", "--backward", "0"}, "takes time");
  check_refused(small_plan("show", "2bw") + Words{"--forward", "1"}, "--forward");
  CHECK(files_in(folder / ".").empty());
}

TEST_CASE("plan refuses plans of very many ranks, and large files that are no plans or graphs") {
  const std::pair<Words, const char*> sizes[] = {
      {{"1f1b", "--steps", "2147483647"}, "--steps 262144 or less"},
      {{"gpipe", "--stages", "2147483647"}, "--stages 2896 or less"},
      {{"interleaved", "--stages", "100000"}, "--stages 5792 or less"},
      {{"data", "--data-parallel", "100000"}, "--data-parallel 999 or less"},
      {{"1f1b", "--data-parallel", "600", "--stages", "2", "--tied"},
       "--data-parallel 407 or less"},
      {{"dualpipe", "--data-parallel", "300", "--stages", "4", "--microbatches", "2"},
       "--data-parallel 249 or less"},
      {{"message-driven", "--microbatches", "300000"}, "--microbatches 262144 or less"},
      {{"cyclic-v2", "--stages", "4", "--steps", "100000"}, "--steps 16384 or less"},
      {{"cyclic-v1", "--stages", "2147483647"}, "--stages 181 or less"},
      {{"gpipe", "--stages", "3000", "--endless"}, "--stages 1448 or less"}};
  for (const auto& [words, works] : sizes)
    check_refused(Words{"plan", "show", "--schedule"} + words,
                  std::string("cells, and 2097152 are possible: use ") + works);
  for (const char* command : {"rows", "order"})
    check_refused({"plan", command, "--stages", "2147483647"}, "an order has at most 1024");
  const Folder folder;
  std::string rows = "stages 10001 per_step 1 steps 1\n", operators;
  for (int i = 0; i <= 10'000; ++i)
    rows += std::to_string(i) + "F0v0 " + std::to_string(i) + "B0v0\n";
  check_refused({"plan", "lower", folder.write("rows", rows)}, "at most 10000 rows");
  for (int i = 0; i < 50'000; ++i) operators += "n" + std::to_string(i) + " 1 1\n";
  check_refused({"plan", "place", folder.write("graph", operators)}, "at most 512 can be placed");
  check_refused({"plan", "place", folder.write("one", "a 1 1\n"), "--devices", "2147483647"},
                "2147483647 devices: at most 512 have an operator");
  check_refused({"plan", "verify", folder.write("zero", std::string(9, '\0'))}, "a zero byte");
  const std::string long_text = folder.write("long", std::string(2 << 20, '\n'));
  for (const Words& reads : {Words{"place"}, Words{"machine"}})
    check_refused(Words{"plan"} + reads + Words{long_text}, "files of its kind have at most");
}
