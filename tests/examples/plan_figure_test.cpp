// What plan draws beside a timeline: faults, lanes of holdings, posters.
// Not here: what a picture shows (tests/parallel/drawing).
#include "nn/checkpoint/file.h"
#include "tests/examples/plan_program.h"
#include "tests/parallel/support/drawing.h"

using namespace plangrad::tests;
using plangrad::nn::read_file;
using plangrad::nn::write_file;

TEST_CASE("plan draw draws a wrong plan up to the fault, and fails as verify does") {
  Folder folder;
  const std::string plan = folder / "wrong.plan", figure = folder / "wrong.svg";
  write_file(plan,
             "stages 2 per_step 2 steps 1\n"
             "0F0v0 0a0>1 0F1v0 0a1>1 0g0<1 0B0v0 0g1<1 0B1v0 0Sv1\n"
             "0a0<0 1F0v0 0a1<0 1B0v0 0g0>0 1B1v0 1F1v0 0g1>0 1Sv1\n");
  const Finished verified = run({"plan", "verify", plan}),
                 drawn = run({"plan", "draw", plan, "--out", figure});
  CHECK(drawn.status == 1);
  CHECK(drawn.status == verified.status);
  CHECK(drawn.errors == verified.errors);
  CHECK_THAT(drawn.errors, Contains("stash: rank 1, 1B1v0"));
  CHECK_THAT(drawn.output, Contains("wrote " + figure));
  CHECK(nlohmann::json::parse(
            run({"plan", "draw", plan, "--out", figure, "--json"}).output)["rule"] == "stash");
  const std::string svg = read_file(figure);
  CHECK(count(svg, "class=\"fault\"") == 1);
  CHECK_THAT(svg, Contains(">stash: rank 1, 1B1v0") && Contains("rank 0: 0B0v0\n"));
  CHECK_THAT(svg, !Contains("rank 0: 0B1v0\n") && !Contains("rank 1: 1F1v0\n"));
  // No figure shows a header that makes no sense.
  write_file(plan, "stages 0 per_step 2 steps 1\n0F0v0\n");
  const Finished none = run({"plan", "draw", plan, "--out", folder / "none.svg"});
  CHECK(none.status == 1);
  CHECK_THAT(none.errors, Contains("shape: the header"));
  CHECK_FALSE(std::filesystem::exists(folder / "none.svg"));
}

TEST_CASE("plan draw --lanes shows what ranks hold, and shards without being asked") {
  Folder folder;
  auto drawn = [&](const Words& more) {
    const std::string file = folder / "lanes.svg";
    output_of(Words{"plan", "draw", "--schedule", "data", "--data-parallel", "4", "--stages", "2",
                    "--out", file} +
              more);
    return read_file(file);
  };
  CHECK_THAT(drawn({}), !Contains("class=\"held\"") && !Contains("ZeRO"));
  CHECK_THAT(drawn({"--lanes", "versions"}),
             Contains("rank 3 holds version 0 of stage 1\n") && !Contains("holds the activations"));
  CHECK_THAT(drawn({"--lanes", "holdings"}), Contains("holds the activations of stage 1") &&
                                                 Contains("holds the open sum of stage 1"));
  CHECK_THAT(drawn({"--zero", "3"}),
             Contains("ZeRO 3: a rank keeps 1/4 of weights, gradients and the optimizer"));
  CHECK_THAT(drawn({"--zero", "3", "--lanes", "versions"}),
             Contains("rank 0 holds its shard of version 0 of stage 1\n"));
  check_refused(small_plan("draw", "2bw") + Words{"--lanes", "versions"}, "--lanes");
}

TEST_CASE("plan poster draws six schedules, or all") {
  Folder folder;
  const std::string file = folder / "poster.svg";
  CHECK_THAT(output_of({"plan", "poster", "--out", file}), Contains("wrote " + file));
  // gpipe, 1f1b, zb-h1, 2bw, cyclic-v2 and data
  CHECK(count(read_file(file), "class=\"area\"") == 6);
  CHECK_THAT(read_file(file), Contains("whole model.</text>"));  // what the number is of
  output_of({"plan", "poster", "--all", "--out", file});
  const std::string all = read_file(file);
  // `data` twice, and recycle, which has lost ranks, not at all
  CHECK(count(all, "class=\"area\"") == plangrad::parallel::schedule_names().size());
  for (const char* name : {"GPipe", "PipeDream-2BW", "DualPipe V", "Cyclic v1", "ZeRO 3"})
    CHECK_THAT(all, Contains(">" + std::string(name) + "</text>"));
  check_refused({"plan", "poster"}, "--out");
}
