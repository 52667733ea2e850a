// Machines in the program `plan`: their texts, the one that is measured, and plans on them.
// Not here: what a text means (tests/parallel/simulation/machine_test.cpp). Chapter 06.
#include "parallel/simulation/machine.h"

#include "nn/checkpoint/file.h"
#include "tests/examples/plan_program.h"

using namespace plangrad::tests;
using namespace plangrad::parallel;

TEST_CASE("plan machine prints what programs know, and a file") {
  Folder folder;
  const std::string text = output_of({"plan", "machine", "v100-aws"});
  CHECK(parse_machine(text).topology.devices_per_host == 8);
  const std::string file = folder.write("copy.txt", text);
  CHECK(output_of({"plan", "machine", file}) == text);
  const std::string out = folder / "out.txt";
  CHECK(output_of({"plan", "machine", "laptop", "--out", out}) == "wrote " + out + "\n");
  CHECK(plangrad::nn::read_file(out) == output_of({"plan", "machine", "laptop"}));
  check_refused({"plan", "machine", "laptop", "--transport", "mpi"},
                "--transport mpi needs --measure");
  check_refused({"plan", "machine"}, "give either a machine's name or file, or --measure");
  check_refused({"plan", "machine", "cray"}, "there is no machine and no file cray; machines are");
  const std::string bad = folder.write("bad.txt", "machine a\ndevice memory -1\n");
  check_refused({"plan", "machine", bad}, "bad.txt, line 2: memory: expected a number");
}

TEST_CASE("plan machine --measure writes a machine that plans can be simulated on") {
  Folder folder;
  const std::string file = folder / "here.txt";
  CHECK(output_of({"plan", "machine", "--measure", "--out", file}) == "wrote " + file + "\n");
  const Machine here = parse_machine(output_of({"plan", "machine", file}));
  CHECK(here.name == "here");
  for (double number : {here.memory, here.memory_bandwidth, here.peak_f32, here.peak_f16})
    CHECK(number > 1e6);
  REQUIRE(here.topology.links.size() == 1);
  CHECK(here.topology.links[0].bandwidth > 1e6);
  CHECK(here.topology.links[0].latency < 1);
  const auto facts = json_of({"plan", "simulate", "--schedule", "gpipe", "--stages", "2", "--model",
                              "gpt2-124m", "--machine", file});
  CHECK(facts["makespan"] > 0);
}

TEST_CASE("plan simulate --machine: seconds from rates, messages from links, devices by rank") {
  const Words words{"plan",      "simulate", "--schedule", "gpipe", "--stages",       "2",
                    "--model",   "2bw-2.2b", "--dtype",    "bf16",  "--microbatches", "2",
                    "--machine", "v100-aws"};
  const auto inside = json_of(words), across = json_of(words + Words{"--devices", "0,8"});
  CHECK(inside["makespan"] < across["makespan"]);
  CHECK(inside["breakdown"]["compute"].get<double>() ==
        Approx(across["breakdown"]["compute"].get<double>()));
  // The table of 51,200 words is summed in f32 by the stages at both ends, while they update the
  // rest; where updates take no time, all wait for it.
  const double table = 4.0 * 51200 * 2304 / 20e9;
  const auto at_once = json_of(words + Words{"--step", "0.000001"});
  CHECK(at_once["critical_path"]["collective"] == Approx(table).epsilon(0.1));
  // Times that are given count instead.
  CHECK(json_of(words + Words{"--forward", "100"})["makespan"] > 300);
  check_refused({"plan", "simulate", "--schedule", "gpipe", "--stages", "2", "--machine", "cray"},
                "--machine: there is no machine and no file cray");
  check_refused(words + Words{"--devices", "0"}, "devices has 1 value for 2 ranks");
}

TEST_CASE("a page of a plan carries the machine") {
  Folder folder;
  const std::string file = folder / "plan.html";
  output_of({"plan", "draw", "--schedule", "gpipe", "--stages", "2", "--machine", "summit", "--out",
             file});
  CHECK_THAT(plangrad::nn::read_file(file), Contains("machine summit"));
}
