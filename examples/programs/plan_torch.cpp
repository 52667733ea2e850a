// Cells become the words of a plan's rows, which the plan's own parser reads. Chapter 06.
#include "examples/programs/plan_torch.h"

#include <cmath>

#include "examples/programs/plan_flags.h"
#include "examples/programs/program.h"
#include "nn/checkpoint/file.h"
#include "parallel/plan/lifetimes.h"
#include "parallel/simulation/simulate.h"

namespace plangrad::examples {

using namespace parallel;

std::string torch_csv(const VerifiedPlan& verified) {
  const Plan& plan = verified.plan();
  const auto ranks = holders(plan);
  bool fits = plan.steps == 1 && !plan.is_endless() && !plan.overlaps_updates() && !plan.clip &&
              plan.tied.empty();
  for (int stage = 0; stage < plan.stages; ++stage) fits &= ranks[stage].size() == 1;
  for_each_cell(plan, [&](int, int, const Instruction& x) { fits &= !drops(x); });
  PG_CHECK(
      fits, "--format torch: PyTorch's form is one update on the newest weights, with each ",
      "stage on one rank, without recomputation, clip and tied; use another schedule, or fewer ",
      "flags: plan lower takes --clip and --tied");
  const Costs equal{.forward = {1}, .backward = {1}, .input_part = {1}, .weight_part = {1}};
  std::vector<std::vector<std::string>> lines(plan.ranks());
  for (const Record& record : simulate(verified, equal).records) {
    const Instruction& x = record.instruction;
    if (!uses_weights(x)) continue;
    const auto step = static_cast<std::size_t>(std::lround(record.start));
    lines[record.rank].resize(std::max(lines[record.rank].size(), step + 1));
    lines[record.rank][step] = text(x.stage, operation(x).letters, x.micro - plan.first_micro());
  }
  std::string csv;
  for (const auto& line : lines) csv += fmt::format("{}\n", fmt::join(line, ","));
  return csv;
}

Plan read_rows(const std::string& file) {
  if (!file.ends_with(".csv")) return read_plan(file);
  std::string rows = "stages 1 per_step 1 steps 1\n";
  int pairs = 0;
  const auto ends_cell = [](char c) { return std::string_view("(;) \r").find(c) < 5; };
  std::istringstream in(nn::read_file(file, nn::most::plan));
  for (std::string line; std::getline(in, line); rows += rows.back() == '\n' ? "-\n" : "\n") {
    std::ranges::replace_if(line, ends_cell, ',');
    for (const std::string& cell : split(line, ',')) {  // such as 0F7, 7B3, OVERLAP_F_B
      pairs += cell == "OVERLAP_F_B";
      if (cell.empty() || cell == "OVERLAP_F_B") continue;
      PG_CHECK(cell.find_first_of("FBIW") == cell.find_first_not_of("0123456789"), file, ": ", cell,
               ": expected F, B, I and W, as in 2F0; plan lower adds messages itself, so remove ",
               "SEND, RECV, UNSHARD, RESHARD and REDUCE_GRAD");
      rows += cell + "v0 ";
    }
  }
  Plan plan = parse(rows);
  for_each_cell(plan, [&](int, int, const Instruction& x) {
    plan.stages = std::max(plan.stages, std::min(x.stage, most_cells) + 1);
    plan.per_step = std::max(plan.per_step, std::min(x.micro, most_cells) + 1);
  });
  plan.keep.resize(plan.stages, 1);
  if (pairs > 0) tell(text("note: overlapped pairs run one after the other: ", pairs));
  return plan;
}

}  // namespace plangrad::examples
