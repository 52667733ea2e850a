// The order of a row, cell after cell, unless the plan's header says otherwise.
// Chapter 06.
#include "parallel/simulation/cell_order.h"

#include "autograd/error.h"
#include "parallel/simulation/driven_order.h"
#include "parallel/simulation/driven_simulation.h"

namespace paragrad::parallel {
namespace {

class InOrder : public CellOrder {
 public:
  explicit InOrder(const Row& row) : size_(static_cast<int>(row.size())) {}
  std::vector<int> next() const override {
    return at_ < size_ ? std::vector{at_} : std::vector<int>();
  }
  void ran(int) override { ++at_; }

 private:
  int at_ = 0, size_;
};

}  // namespace

std::unique_ptr<CellOrder> make_order(const Plan& plan, const Row& row) {
  if (plan.in_flight > 0) return std::make_unique<DrivenOrder>(plan, row);
  return std::make_unique<InOrder>(row);
}

Plan recorded(const Plan& plan, const std::vector<std::vector<int>>& orders) {
  PG_CHECK(static_cast<int>(orders.size()) == plan.ranks(), "expected the orders of ", plan.ranks(),
           " ranks, got ", orders.size());
  Plan result = plan;
  result.in_flight = 0;
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    PG_CHECK(orders[rank].size() == plan.rows[rank].size(), "rank ", rank, " ran ",
             orders[rank].size(), " of ", plan.rows[rank].size(), " instructions");
    for (std::size_t i = 0; i < orders[rank].size(); ++i)
      result.rows[rank][i] = plan.rows[rank].at(orders[rank][i]);
  }
  return result;
}

Plan in_order(const Plan& plan, const Costs& costs, const Events& events) {
  return plan.in_flight > 0 ? recorded(plan, driven_orders(plan, costs, events)) : plan;
}

}  // namespace paragrad::parallel
