#include "tests/parallel/simulation/timelines.h"

#include <fstream>
#include "tests/folders.h"

namespace plangrad::tests {

using namespace plangrad::parallel;

const Record& find(const Timeline& timeline, int rank, const std::string& instruction) {
  const Instruction wanted = parse_instruction(instruction);
  const auto found = std::ranges::find_if(timeline.records, [&](const Record& record) {
    return record.rank == rank && record.instruction == wanted;
  });
  PG_CHECK(found != timeline.records.end(), "no ", instruction, " on rank ", rank);
  return *found;
}

Span span(const Timeline& timeline, int rank, const std::string& instruction) {
  const Record& record = find(timeline, rank, instruction);
  return {record.start, record.end};
}

Timeline with_cells(const Plan& plan, Timeline timeline) {
  std::vector<std::vector<bool>> taken;
  for (const Row& row : plan.rows) taken.emplace_back(row.size());
  for (Record& record : timeline.records) {
    const Row& row = plan.rows.at(record.rank);
    std::size_t cell = 0;
    while (cell < row.size() && (taken[record.rank][cell] || row[cell] != record.instruction))
      ++cell;
    if (cell == row.size()) continue;
    taken[record.rank][cell] = true;
    record.cell = static_cast<int>(cell);
  }
  return timeline;
}

const std::string two_stages =
    "stages 2 per_step 2 steps 1 first 0 sharded 0 clip 0 stagger 0 gap 2 keep 1\n"
    "0F0v0 0a0>1 0F1v0 0a1>1 0g0<1 0g1<1 0B0v0 0B1v0 0Sv1\n"
    "0a0<0 0a1<0 1F0v0 1F1v0 1B0v0 0g0>0 1B1v0 0g1>0 1Sv1\n";

Plan rows(const std::string& text, const std::string& header) {
  Plan plan = parse(header + "\n" + text);
  for (const Row& row : plan.rows)
    for (const Instruction& x : row) plan.per_step = std::max(plan.per_step, x.micro + 1);
  return plan;
}

Plan example(const std::string& name) {
  std::ifstream file(clone_path("tests/parallel/plans/" + name + ".plan"));
  std::ostringstream text;
  text << file.rdbuf();
  return parse(text.str());
}

}  // namespace plangrad::tests
