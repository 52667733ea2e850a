// Machines as texts: what is read, what is refused with its line, what kernels take, and runs of
// plans on a machine's links. Not here: shared links (links_test.cpp). Chapter 06.
#include "parallel/simulation/machine.h"

#include "nn/checkpoint/file.h"
#include "parallel/schedules/schedule.h"
#include "parallel/simulation/simulate.h"
#include "tests/catch.h"
#include "tests/folders.h"

using namespace plangrad::parallel;
using namespace plangrad::tests;

namespace {

const std::string small = R"(# a comment
machine small   # and another
device  memory 1e9  bandwidth 2e9
device  peak.f32 1e12
fitted  efficiency 0.5  tile 64  host 1e-3  memory_share 0.25
hosts   2 devices
link    wire  between devices of a host  4e9 B/s  1e-6 s
link    card  of a host  1e9 B/s  1e-5 s  one way at a time
)";

void check_refused(const std::string& text, const std::string& words) {
  CAPTURE(text);
  CHECK_THROWS_WITH(parse_machine(text), Contains(words) && !Contains("\n"));
}

}  // namespace

TEST_CASE("machine: what a text says, and the text of a machine", "[machine]") {
  const Machine machine = parse_machine(small);
  CHECK(machine.name == "small");
  CHECK(machine.memory == 1e9);
  CHECK(machine.memory_bandwidth == 2e9);
  CHECK(machine.peak_f32 == 1e12);
  CHECK(machine.peak_f16 == 0);
  CHECK(machine.efficiency == 0.5);
  CHECK(machine.tile == 64);
  CHECK(machine.host_seconds == 1e-3);
  CHECK(machine.memory_share == 0.25);
  CHECK(machine.topology.devices_per_host == 2);
  REQUIRE(machine.topology.links.size() == 2);
  const Link& card = machine.topology.links[1];
  CHECK(card.name == "card");
  CHECK(card.reach == Reach::card);
  CHECK(card.bandwidth == 1e9);
  CHECK(card.latency == 1e-5);
  CHECK(card.one_way);
  CHECK_FALSE(machine.topology.links[0].one_way);
  CHECK(print(parse_machine(print(machine))) == print(machine));
}

TEST_CASE("machine: a text that is wrong is refused with its line", "[machine]") {
  check_refused("", "line 1: a machine begins with \"machine NAME\"");
  check_refused("machine a\nmachine b\n", "line 2: machine is given twice; leave one out");
  check_refused("machine a\nlink x of a host 1e9 B/s 0 s\nlink x of a device 1e9 B/s 0 s",
                "line 3: link x is given twice");
  check_refused("machine a\n\ndevice memory -1\n", "line 3: memory: expected a number");
  check_refused("machine a\nlink x of a host -2 B/s 0 s\n", "line 2: x: expected a number");
  check_refused("machine a\nlink x of a host 2e9 B/s -1 s\n", "line 2: x: expected a number");
  check_refused("machine a\nlink x beside a host 2e9 B/s 0 s\n",
                "line 2: link x: which messages use it?");
  check_refused("machine a\nlink x of a host 2e9 0 s\n", "line 2: link x: expected B/s");
  check_refused("machine a\nlink x of a host 2e9 B/s 0 s twice\n", "line 2: unknown word twice");
  check_refused("machine a\ndevice wheels 4\n", "line 2: expected one of memory, ");
  check_refused("machine a\nfitted efficiency 1.5\n", "line 2: efficiency: expected a number");
  check_refused("machine a\nhosts 0 devices\n", "line 2: hosts: expected a whole number");
  check_refused("machine a\nhosts 1.5 devices\n", "line 2: hosts: expected a whole number");
  check_refused("machine a\nhosts 2 devices\nhosts 3 devices\n", "line 3: hosts is given twice");
  check_refused("machine a\ndevice memory 5 memory 6\n", "line 2: memory is given twice");
  check_refused("machine a\ndevice memory 5\ndevice memory 6\n", "line 3: memory is given twice");
  check_refused("machine a\nfitted\n", "line 2: expected one of efficiency, tile, ");
  for (const char* line : {"device memory 0", "device bandwidth 0", "device peak.f32 1e-3",
                           "device peak.f16 0", "fitted efficiency 0", "fitted memory_share 0",
                           "fitted tile 1e30", "fitted host 1e30", "fitted piece 0.5"})
    check_refused(text("machine a\n", line, "\n"), "line 2: ");
  check_refused("machine\n", "line 1: the machine has no name");
  check_refused("machine a\nrouter b\n", "line 2: unknown word router");
}

TEST_CASE("machine: every machine that comes along can be read", "[machine]") {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(clone_path("examples/machines"))) {
    const std::string name = entry.path().stem();
    CAPTURE(name);
    const Machine machine = parse_machine(plangrad::nn::read_file(entry.path()));
    CHECK(machine.name == name);
    CHECK(machine.memory > 0);
    CHECK(machine.peak_f32 > 0);
    CHECK(machine.memory_bandwidth > 0);
    CHECK_FALSE(machine.topology.links.empty());
    CHECK(machine.topology.devices_per_host > 0);
    ++count;
  }
  CHECK(count == 6);
}

TEST_CASE("machine: a line that says it is as another machine's has its numbers", "[machine]") {
  const auto file = [](const std::string& name) {
    return plangrad::nn::read_file(clone_path("examples/machines/" + name + ".txt"));
  };
  const Machine other = parse_machine(file("v100-aws")), plain;
  for (const std::string name : {"summit", "rtx3090x8"}) {
    std::istringstream lines(file(name));
    int count = 0;
    for (std::string line; std::getline(lines, line);) {
      if (line.find("# as v100-aws") == line.npos) continue;
      CAPTURE(name, line);
      const Machine one = parse_machine("machine one\n" + line);
      for (auto value : {&Machine::memory, &Machine::memory_bandwidth, &Machine::efficiency,
                         &Machine::tile, &Machine::memory_share})
        CHECK((one.*value == plain.*value || one.*value == other.*value));
      ++count;
    }
    CHECK(count > 0);
  }
}

TEST_CASE("machine: kernels take their arithmetic's time, or their bytes'", "[machine]") {
  const Machine machine = parse_machine(small);
  plangrad::autograd::KernelTable kernels;
  kernels["copy"] = {.calls = 2, .bytes = 1e9};
  CHECK(seconds(machine, kernels) == Approx(1e9 / (2e9 * 0.25)));
  kernels.clear();
  kernels["gemm"] = {.calls = 3, .flops = 6e9, .products = {64, 192, 64}};
  CHECK(seconds(machine, kernels) == Approx(6e9 / (0.5e12 * 0.5 * 0.75 * 0.5)));
  kernels["gemm"].dtype = plangrad::autograd::DType::bf16;
  CHECK_THROWS_WITH(seconds(machine, kernels), Contains("small has no peak.f16"));
}

TEST_CASE("machine: messages of a plan take its links, by the device of each rank", "[machine]") {
  const VerifiedPlan plan =
      verify(make_plan("gpipe", {.stages = 2, .width = 1, .microbatches = 1, .steps = 1}));
  Costs costs{.backward = {1}, .activation_bytes = {4'000'000}};
  costs.machine = std::make_shared<Machine>(parse_machine(small));
  CHECK(simulate(plan, costs).makespan() == Approx(4 + 2 * (1e-6 + 1e-3)));
  costs.devices = {1, 2};  // on two hosts
  CHECK(simulate(plan, costs).makespan() == Approx(4 + 2 * (1e-5 + 4e-3)));
  costs.devices = {1};
  CHECK_THROWS_WITH(simulate(plan, costs), Contains("devices has 1 value for 2 ranks"));
}
