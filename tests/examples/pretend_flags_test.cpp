// Flags of pretended devices and links: what they reject, what a run says of them, and that they
// change no bit. Not here: how long such runs take (tests/parallel/engine/pretended_time_test.cpp).
#include "examples/programs/pretend_flags.h"

#include "nn/checkpoint/file.h"
#include "tests/examples/runs.h"

using namespace plangrad::tests;
using nlohmann::json;
using plangrad::examples::PretendFlags;

namespace {

using Values = std::vector<double>;

void check_flags(const PretendFlags& flags, const std::string& problem,
                 const std::string& transport = "threads", int ranks_per_host = 0) {
  CAPTURE(flags.compute, flags.link);
  CHECK_THROWS_WITH(flags.check("cpu", transport, ranks_per_host), Contains(problem));
}

}  // namespace

TEST_CASE("pretended times have two or three parts, for all stages or for each") {
  const auto all = PretendFlags{"0.02,0.04", "", false}.found(3, 3, 0);
  CHECK(all.forward == Values{0.02});
  CHECK(all.backward == Values{0.04});
  CHECK(all.step == Values{0});
  const auto each = PretendFlags{"1,2,3;4,5", "", false}.found(2, 2, 0);
  CHECK(each.forward == Values{1, 4});
  CHECK(each.backward == Values{2, 5});
  CHECK(each.step == Values{3, 0, 0});
  for (const char* nothing : {"", "none"}) {
    const PretendFlags flags{nothing, nothing, false};
    CHECK_NOTHROW(flags.check("cuda", "nccl", 0));
    CHECK_FALSE(flags.found(3, 1, 0).computes());
    CHECK_FALSE(flags.found(3, 1, 0).links());
  }

  check_flags({"0.02", "", false}, "expected FORWARD,BACKWARD");
  check_flags({"1,2,3,4", "", false}, "expected FORWARD,BACKWARD");
  check_flags({"1,2;", "", false}, "expected FORWARD,BACKWARD");
  check_flags({"1,", "", false}, "--pretend-compute: expected a number");
  check_flags({"1,-2", "", false}, "--pretend-compute: expected a number from 0");
  check_flags({"1,2s", "", false}, "got 2s");
  check_flags({"nan,1", "", false}, "--pretend-compute: expected a number");
  check_flags({"0,0;0,0", "", false}, "all times are 0");
  CHECK_THROWS_WITH((PretendFlags{"1,2;3,4", "", false}.found(3, 3, 0)),
                    Contains("--pretend-compute has 2 sets of times for 3 stages"));
  CHECK_THROWS_WITH((PretendFlags{"1,2", "", false}.check("cuda", "threads", 0)),
                    Contains("use --device cpu"));
}

TEST_CASE("a pretended link has a latency and a bandwidth, and cards need hosts") {
  const auto link = PretendFlags{"", "1e-3,1e9", false}.found(2, 4, 0);
  REQUIRE(link.topology.links.size() == 1);
  CHECK(link.topology.links[0].latency == 1e-3);
  CHECK(link.topology.links[0].bandwidth == 1e9);
  CHECK(link.topology.devices_per_host == 0);
  for (const char* links : {"0,1e9", "0,1e9;0,2e9"}) {
    const auto cards = PretendFlags{"", links, true}.found(2, 4, 2).topology;
    REQUIRE(cards.links.size() == 2);
    CHECK(cards.devices_per_host == 2);
    CHECK(cards.links[0].reach == plangrad::parallel::Reach::card);
    CHECK(cards.links[0].bandwidth == 1e9);
    CHECK(cards.links[1].bandwidth == (links[5] == ';' ? 2e9 : 1e9));
  }
  check_flags({"", "0,1e9;0,2e9", false}, "a second link is for messages within a host");

  const auto named = PretendFlags{"", "", false, "summit"}.found(2, 4, 0);
  CHECK(named.machine == "summit");
  CHECK(named.topology.devices_per_host == 6);
  check_flags({"", "1,1e9", false, "summit"}, "both give links");
  check_flags({"", "", false, "summit"}, "all ranks are threads", "mpi");
  check_flags({"", "", false, "sumit"}, "there is no machine and no file sumit; machines are ");

  check_flags({"", "1e-3", false}, "expected LATENCY,BANDWIDTH");
  check_flags({"", "1,2,3", false}, "expected LATENCY,BANDWIDTH");
  check_flags({"", "-1,1e9", false}, "--pretend-link: expected a number from 0");
  check_flags({"", "1,0", false}, "--pretend-link: expected a number, 1 or more");
  check_flags({"", "1,inf", false}, "--pretend-link: expected a number");
  check_flags({"", "1,1e9", false}, "NCCL moves messages itself", "nccl");
  check_flags({"", "", true}, "add --pretend-link", "threads", 2);
  check_flags({"", "1,1e9", true}, "--ranks-per-host N");
  check_flags({"", "1,1e9", true}, "use --transport threads", "mpi", 2);
  CHECK_THROWS_WITH((PretendFlags{"", "1,1e9", true}.found(2, 4, 4)), Contains("on one host"));
  CHECK_THROWS_WITH((PretendFlags{"", "1,1e9", false}.found(2, 1, 0)),
                    Contains("one rank sends no messages"));
}

TEST_CASE("a run on pretended devices has the bits of any other, and says what it pretends") {
  Runs runs{{"--layers", "2", "--schedule", "1f1b", "--stages", "2", "--data-parallel", "2",
             "--microbatches", "2"}};
  const Words pretend{"--pretend-compute", "1e-3,2e-3,1e-4", "--pretend-link", "1e-4,1e9"};
  runs.train("plain");
  runs.train("pretended", pretend + Words{"--pretend-cards", "--ranks-per-host", "2"});
  runs.check_same("plain", "pretended");

  const json summary = summary_of(runs.path("pretended"));
  const json told = summary["pretended"];
  CHECK(told["forward"] == Values{1e-3});
  CHECK(told["backward"] == Values{2e-3});
  CHECK(told["step"] == Values{1e-4});
  CHECK(told["latency"] == 1e-4);
  CHECK(told["bandwidth"] == 1e9);
  CHECK(told["ranks_per_card"] == 2);
  // In each of 6 updates 8 forwards, 8 backwards and 4 steps of stages; the shared table adds some.
  CHECK(told["computations"] >= 6 * (8 + 8 + 4));
  CHECK(told["late"] <= told["computations"]);
  CHECK_FALSE(summary.contains("model_flops_utilization"));
  CHECK_THAT(plangrad::nn::read_file(runs.path("pretended") + "/report.html"),
             Contains("forward 0.001 s, backward 0.002 s, update 0.0001 s") &&
                 Contains("0.0001 s, 1000000000 bytes/s, a card for 2 ranks"));

  const json plain = summary_of(runs.path("plain"));
  CHECK_FALSE(plain.contains("pretended"));
  CHECK(plain.contains("model_flops_utilization"));
  CHECK_FALSE(report_of(runs.path("plain")).contains("pretended"));
}

TEST_CASE("late computations are counted and told") {
  Runs runs{{"--pretend-compute", "1e-9,1e-9"}};
  const Finished result = succeeded(run(runs.words("late")));
  const std::string told = "12 of 12 computations took longer than pretended";
  CHECK_THAT(result.output, Contains(told + "; the times are not those of the devices"));
  CHECK_THAT(plangrad::nn::read_file(runs.path("late") + "/report.html"), Contains(told));
  CHECK(summary_of(runs.path("late"))["pretended"]["late"] == 12);
}

TEST_CASE("a resumed run keeps what it pretends, or is told otherwise") {
  Runs runs{{"--layers", "2", "--stages", "2", "--microbatches", "2"}};
  const Words pretend{"--pretend-compute", "1e-3,1e-3;2e-3,2e-3", "--pretend-link", "1e-4,1e9"};
  runs.train("run", pretend + Words{"--stop-after", "2"});
  runs.resume("run", {"--stop-after", "2"});
  CHECK(summary_of(runs.path("run"))["pretended"]["forward"] == Values{1e-3, 2e-3});
  runs.resume("run", {"--pretend-compute", "none", "--pretend-link", "none"});
  CHECK_FALSE(summary_of(runs.path("run")).contains("pretended"));
  runs.train("plain");
  runs.check_same("run", "plain");

  runs.check_refused({"--pretend-compute", "1,2;3,4;5,6"}, "3 sets of times for 2 stages");
  runs.check_refused({"--pretend-link", "1"}, "expected LATENCY,BANDWIDTH");
  runs.check_refused({"--ranks-per-host", "1"}, "or --pretend-cards");
  const std::string machine = runs.path("one.txt");
  plangrad::nn::write_file(machine,
                           "machine one\ndevice memory 1e9 bandwidth 1e9\n"
                           "device peak.f32 1e9\nhosts 1 devices\n"
                           "link bus within a host 1e9 B/s 1e-6 s\n");
  runs.check_refused({"--pretend-machine", machine}, "2 ranks are more than the 1 device of one");
}
