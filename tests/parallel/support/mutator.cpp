// The faults. Not here: what becomes of them (mutation_test).
#include "tests/parallel/support/mutator.h"

namespace plangrad::tests {

using namespace parallel;

Plan Mutator::mutate(Mutation fault) {
  Plan plan = plan_;
  const int rank = draw(plan.ranks());
  Row& row = plan.rows[rank];
  const int size = static_cast<int>(row.size()), at = draw(size);
  const auto cell = row.begin() + at;
  switch (fault) {
    case Mutation::swap_neighbours:
      std::swap(row[std::min(at, size - 2)], row[std::min(at, size - 2) + 1]);
      break;
    case Mutation::exchange_sends: exchange(row); break;
    case Mutation::microbatch:
      renumber(row, &Instruction::micro, plan.first_micro(), plan.last_micro());
      break;
    case Mutation::version:
      renumber(row, &Instruction::version, 0, plan.first + plan.steps + 1);
      break;
    case Mutation::peer: renumber(row, &Instruction::peer, 0, plan.ranks()); break;
    case Mutation::deletion: row.erase(cell); break;
    case Mutation::duplication: row.insert(row.begin() + draw(size + 1), *cell); break;
    case Mutation::detour: send_around(plan, rank, draw(plan.ranks())); break;
  }
  return plan;
}

void Mutator::exchange(Row& row) {
  std::vector<std::size_t> sends;
  for (std::size_t i = 0; i < row.size(); ++i)
    if (row[i].op == Op::send) sends.push_back(i);
  if (sends.size() < 2) return;
  const int n = static_cast<int>(sends.size());
  std::swap(row[sends[draw(n)]], row[sends[draw(n)]]);
}

void Mutator::renumber(Row& row, int Instruction::*field, int begin, int end) {
  std::vector<std::size_t> cells;
  for (std::size_t i = 0; i < row.size(); ++i)
    if (row[i].*field >= 0) cells.push_back(i);
  if (cells.empty()) return;
  row[cells[draw(static_cast<int>(cells.size()))]].*field = begin + draw(end - begin);
}

namespace {

/// How many messages of this kind stand before a place of a row.
auto passed(const Row& row, int end, Op op, int with) {
  return std::count_if(row.begin(), row.begin() + end,
                       [&](const Instruction& x) { return x.op == op && x.peer == with; });
}

}  // namespace

/// Sends an activation, or its gradient, to another rank and back, at two places of the rows where
/// the messages of both ranks still meet.
void Mutator::send_around(Plan& plan, int here, int there) {
  Row values, &row = plan.rows[here], &other = plan.rows[there];
  for (const Instruction& x : row)
    if (x.what == Value::activation || x.what == Value::activation_gradient) values.push_back(x);
  if (here == there || values.empty()) return;
  const int at = draw(static_cast<int>(row.size()) + 1);
  std::vector<int> places;
  for (int place = 0; place <= static_cast<int>(other.size()); ++place)
    if (passed(row, at, Op::send, there) == passed(other, place, Op::recv, here) &&
        passed(row, at, Op::recv, there) == passed(other, place, Op::send, here))
      places.push_back(place);
  if (places.empty()) return;
  Instruction x = values[draw(static_cast<int>(values.size()))];
  auto insert = [&x](Row& into, int place, Op first, Op second, int from) {
    x.peer = from;
    for (Op op : {second, first}) {
      x.op = op;
      into.insert(into.begin() + place, x);
    }
  };
  insert(row, at, Op::send, Op::recv, there);
  insert(other, places[draw(static_cast<int>(places.size()))], Op::recv, Op::send, here);
}

}  // namespace plangrad::tests
