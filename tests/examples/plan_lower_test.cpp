// plan lower: rows of computations become a whole plan, which is verified and trains, whoever wrote
// them. Not here: what lowering adds (tests/parallel/lowering).

#include "nn/checkpoint/file.h"
#include "parallel/schedules/schedule.h"
#include "tests/examples/plan_program.h"
#include "tests/examples/runs.h"
#include "tests/folders.h"
#include "tests/parallel/support/ordinary_schedules.h"

using namespace plangrad::tests;
namespace parallel = plangrad::parallel;

namespace {

const std::string source = clone_path("examples/own_schedule.py");

/// A plan's computations alone, as text.
std::string computations(parallel::Plan plan, bool with_steps) {
  plan.groups.clear();
  for (parallel::Row& row : plan.rows)
    std::erase_if(row, [&](const parallel::Instruction& x) {
      return !is_compute(x) || (makes_version(x) && !with_steps);
    });
  return print(plan);
}

}  // namespace

TEST_CASE("plan lower gives every schedule's rows the messages that the schedule's plan has") {
  Folder folder;
  for (const auto& [name, schedule] : ordinary_schedules())
    for (bool with_steps : {false, true}) {
      const parallel::Plan plan =
          parallel::make_plan(name, {.stages = 4, .width = 2, .microbatches = 4, .steps = 2});
      const std::string file = folder.write("rows.txt", computations(plan, with_steps));
      CAPTURE(name, with_steps);
      CHECK(parallel::parse(output_of({"plan", "lower", file})) == plan);
    }
}

TEST_CASE("plan lower makes of an update's rows what the schedule makes of several updates") {
  Folder folder;
  const parallel::Layout one{.stages = 4, .microbatches = 4};
  parallel::Layout all{.stages = 4, .width = 2, .microbatches = 4, .steps = 3, .clip = true};
  all.tied = true;
  for (const char* name : {"1f1b", "gpipe", "zb-h1", "zb-v", "interleaved", "dualpipe"}) {
    CAPTURE(name);
    const std::string rows =
        folder.write("rows.txt", computations(parallel::make_plan(name, one), false));
    const Words lower{"plan", "lower", rows, "--data-parallel", "2", "--clip", "--tied"};
    CHECK(parallel::parse(output_of(lower + Words{"--steps", "3"})) == make_plan(name, all));
    CHECK(parallel::parse(output_of(lower + Words{"--endless"})) == make_endless(name, all));
  }
}

TEST_CASE("plan lower refuses to repeat rows that are no single update on the newest weights") {
  Folder folder;
  const std::string why = "repeat the rows of one update on the newest weights; say steps 1, ";
  const auto file = [&](const char* schedule, int steps) {
    const parallel::Layout layout{.stages = 2, .microbatches = 2, .steps = steps};
    return folder.write("rows.txt", computations(parallel::make_plan(schedule, layout), false));
  };
  check_refused({"plan", "lower", file("2bw", 1), "--steps", "2"}, why);
  check_refused({"plan", "lower", file("gpipe", 2), "--endless"}, why);
  const std::string rows = file("gpipe", 1);
  check_refused({"plan", "lower", rows, "--steps", "2", "--endless"}, "--endless");
  check_refused({"plan", "lower", rows, "--steps", "100000"}, "use a smaller --steps or");
}

TEST_CASE("rows that a Python program writes are lowered, verified and trained") {
  Folder folder;
  const std::string rows = folder / "rows.txt", plan = folder / "own.plan";
  const int python = std::system(("python3 " + source + " >" + rows).c_str());
  PG_CHECK(python == 0,
           "this test needs python3; examples/install_packages.sh --tests installs it");
  plangrad::nn::write_file(plan, output_of({"plan", "lower", rows}));
  const std::string verified = output_of({"plan", "verify", plan});
  CHECK_THAT(verified, Contains("verified\n") && Contains("\npeak forwards         3 3 3 1\n"));
  Runs runs{{"--layers", "2", "--batch", "8", "--untied", "--clip", "0"}};
  runs.train("own", {"--plan", plan});
  runs.train("one", {"--microbatches", "8"});
  const auto own = losses_of(runs.path("own")), one = losses_of(runs.path("one"));
  REQUIRE(own.size() == one.size());
  for (std::size_t step = 0; step < own.size(); ++step)
    for (const char* name : {"loss", "validation_loss"})
      CHECK(own[step].value(name, -1.0) == one[step].value(name, -1.0));
}

TEST_CASE("plan lower refuses what is no row of computations") {
  Folder folder;
  auto check_refused = [&](const std::string& text, const std::string& part) {
    const Finished result = run({"plan", "lower", folder.write("rows.txt", text)});
    CHECK(result.status != 0);
    CHECK(result.output.empty());
    CHECK_THAT(result.errors, Contains(part));
  };
  const std::string header = "stages 2 per_step 1 steps 1\n";
  check_refused(header + "0F0v0 0a0>1 0B0v0\n1F0v0 1B0v0\n",
                "0a0>1: rows have no messages or reductions; lowering adds them");
  check_refused("stages 1 per_step 1 steps 1 period 1\n| 0F0v0 0B0v0 |\n",
                "rows have no bars; plan lower --endless repeats one update");
  check_refused("stages 1 per_step 1 steps 2\n0F0v0 0B0v0\n0F1v1 0B1v1\n",
                "every holder of a stage needs a microbatch in each update");
  check_refused(header + "0B0v0 0F0v0\n1F0v0 1B0v0\n",
                "wait for each other: rank 0 is at 0B0v0, which needs the gradient that comes "
                "from stage 1 for microbatch 0; rank 1 is at 1F0v0, which needs the output of 0F0");
  check_refused(header + "0F0v0 0B0v0\n2F0v0 2B0v0\n", "stage 2 does not exist; there are 2");
  check_refused(header + "0F0v0 0F1v0 0B0v0 0B1v0\n1F0v0 1F1v0 1B0v0 1B1v0\n", "microbatch 1");
  check_refused(header + "0F0v0 0B0v0\n1F0v0 1F0v0\n", "no row has 1B0; every microbatch passes");
  check_refused(header + "0F0v0 0I0v0\n1F0v0 1B0v0\n", "no row has 0B0; ");
  check_refused(header + "0F0v0 0F0v0 0B0v0\n1F0v0 1B0v0\n", "once");
  check_refused(
      "stages 2 per_step 1 steps 2\n0F0v0 0B0v0 0Sv1 0F1v1 0B1v1\n"
      "1F0v0 1B0v0 1F1v1 1B1v1\n",
      "version");
  check_refused("0F0v0 0B0v0\n", "a plan's header has no \"0F0v0\"");
  CHECK_THAT(run({"plan", "lower"}).errors, Contains("FILE is required"));
}
