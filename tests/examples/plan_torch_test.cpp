// PyTorch's form of schedules: plan show writes it, plan lower reads it, and its orders are ours.
#include "nn/checkpoint/file.h"
#include "parallel/schedules/schedule.h"
#include "tests/examples/plan_program.h"
#include "tests/folders.h"

using namespace plangrad::tests;
namespace parallel = plangrad::parallel;

namespace {

/// The orders that tests/references/torch_orders.py has written, with a comment on their origin.
std::vector<std::string> torch_orders() {
  std::string all = plangrad::nn::read_file(clone_path("tests/references/torch_orders.txt"));
  std::vector<std::string> orders;
  for (std::size_t end; (end = all.find("\n\n")) != all.npos; all.erase(0, end + 2))
    orders.push_back(all.substr(0, end));
  return orders;
}

}  // namespace

TEST_CASE("PyTorch's DualPipeV, ZBV and interleaved 1F1B are cell for cell those of plangrad") {
  Folder folder;
  const auto orders = torch_orders();
  REQUIRE(orders.size() == 4);
  const std::pair<const char*, int> ours[]{{"dualpipe-v", 10}, {"zb-v", 8}, {"interleaved", 8}};
  for (std::size_t i = 0; i < std::size(ours); ++i) {
    const auto [name, microbatches] = ours[i];
    CAPTURE(name);
    const parallel::Plan plan =
        parallel::make_plan(name, {.stages = 8, .microbatches = microbatches});
    CHECK(parallel::plan_of_rows(parallel::parse(orders[i])) == plan);
    const std::string csv =
        output_of({"plan", "show", "--schedule", name, "--stages", "8", "--microbatches",
                   std::to_string(microbatches), "--format", "torch"});
    CHECK(parallel::parse(output_of({"plan", "lower", folder.write("order.csv", csv)})) == plan);
  }
  const std::string zb1p = output_of({"plan", "lower", folder.write("zb1p.rows", orders[3])});
  CHECK_THAT(output_of({"plan", "verify", folder.write("zb1p.plan", zb1p), "--backward", "2"}),
             Contains("\nbubble                2.04%\n"));
}

TEST_CASE("plan show --format torch writes a cell for each time step, also for idle ones") {
  const Words show{"plan", "show", "--stages", "2", "--microbatches", "2", "--format", "torch"};
  CHECK(output_of(show + Words{"--schedule", "1f1b"}) == "0F0,0F1,,0B0,,0B1\n,1F0,1B0,1F1,1B1\n");
  const std::string form = "--format torch: PyTorch's form is one update on the newest weights";
  check_refused(show + Words{"--schedule", "2bw"}, form);
  for (const Words& words : {Words{"--steps", "2"},
                             {"--endless"},
                             {"--recompute"},
                             {"--data-parallel", "2"},
                             {"--clip"}})
    check_refused(show + Words{"--schedule", "gpipe"} + words, form);
  check_refused(show + Words{"--schedule", "1f1b", "--json"}, "three forms of a plan; give one");
}

TEST_CASE("plan lower reads PyTorch's overlapped pairs one after the other") {
  Folder folder;
  const std::string csv =
      folder.write("one.csv", "0F0,1F0,,(0F1;1B0)OVERLAP_F_B,1F1,0B0,1B1,0B1\r\n");
  const Finished result = run({"plan", "lower", csv});
  CHECK(result.output ==
        "stages 2 per_step 2 steps 1\n"
        "0F0v0 1F0v0 0F1v0 1B0v0 1F1v0 0B0v0 1B1v0 1Sv1 0B1v0 0Sv1\n");
  CHECK(result.errors == "note: overlapped pairs run one after the other: 1\n");
  const auto check_cell = [&](const std::string& cell, const std::string& words) {
    check_refused({"plan", "lower", folder.write("bad.csv", "0F0," + cell + "\n")}, words);
  };
  for (const char* cell : {"0SEND_F0", "0UNSHARD", "0REDUCE_GRAD", "0X0", "#"})
    check_cell(cell, "expected F, B, I and W, as in 2F0; plan lower adds messages itself");
  for (const char* cell : {"F0", "0F", "0F0v0", "0BW0"}) check_cell(cell, "is not an instruction");
}
