// The interpreter: one function for each operation. A computation waits for its inputs, a message
// is handed to the other lane (row_messages.cpp). Not here: where the inputs are (row_values.cpp).
// Chapter 05.
#include "parallel/engine/row_run.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "parallel/codecs/not_finite.h"
#include "parallel/simulation/driven_order.h"

namespace paragrad::parallel {

RowRun::RowRun(Engine& engine, const VerifiedPlan& verified, Batches& batches)
    : engine_(engine),
      plan_(verified.plan()),
      row_(plan_.rows[engine.transport_.rank()]),
      batches_(batches),
      capacity_(verified.facts().capacity),
      lifetimes_(plan_, row_),
      tied_versions_(tied_versions(plan_)),
      holders_(holders(plan_)),
      lane_(engine.transport_) {
  for (const Instruction& x : row_)
    if (x.op == Op::step)
      steps_.insert({x.stage, x.version});
    else if (x.op == Op::send && x.what == Value::gradient_sum && is_finished(x))
      sent_.insert({x.stage, plan_.made_by(x.micro)});
}

// [snippet interpreter]
RunResult RowRun::run() {
  free_unread();
  const int end = static_cast<int>(row_.size());
  if (plan_.in_flight > 0)
    run_driven();
  else
    for (int cell = 0; cell < end; ++cell) run_cell(cell);
  engine_.transport_.publish(position(engine_.plans_run_, end));
  finish_messages();
  read_losses();
  result_.begun = begin_;
  return std::move(result_);
}

void RowRun::run_cell(int cell) {
  index_ = cell;
  engine_.transport_.publish(position(engine_.plans_run_, index_));
  execute(row_[index_]);
  for (auto [stage, version] : lifetimes_.ending_at(index_)) {
    wait_for_readers(stage, version);
    store(stage).release(version);
  }
}

void RowRun::execute(const Instruction& x) {
  if (is_compute(x))
    for (auto [stage, version] : weights_read(plan_, tied_versions_, x))
      wait_for({Value::weights, stage, version});
  switch (x.op) {
    case Op::forward: return forward(x);
    case Op::backward: return backward(x);
    case Op::step: return step(x);
    case Op::drop: return drop(x);
    case Op::send: return send(x);
    case Op::recv: return receive(x);
    case Op::reduce: return reduce(x);
    case Op::fold: return fold(x);
    case Op::norm: return norm(x);
    case Op::gather: return gather(x);
  }
}
// [end snippet]

// [snippet driven]
/// In the order in which messages come.
void RowRun::run_driven() {
  DrivenOrder order(plan_, row_);
  for (std::vector<int> cells = order.next(); !cells.empty(); cells = order.next()) {
    const int cell = cells.size() == 1 ? cells.front() : first_ready(cells);
    run_cell(cell);
    order.ran(cell);
    result_.order.push_back(cell);
  }
}

/// The first of these computations whose input is here, as soon as there is one.
int RowRun::first_ready(const std::vector<int>& cells) {
  for (;;) {
    std::vector<const Ticket*> awaited;
    for (int cell : cells) {
      const Arriving* input = input_of(row_[cell]);
      if (!input || lane_.is_done(*input->by.ticket)) return cell;
      awaited.push_back(input->by.ticket.get());
    }
    wait_for_any(awaited, input_of(row_[cells.front()])->by.index);
  }
}

/// What brings a forward or backward its input; null if no message does.
const RowRun::Arriving* RowRun::input_of(const Instruction& x) const {
  const bool from_before = x.op == Op::forward && !engine_.runners_.at(x.stage).under_way(x.micro);
  const Name input = from_before ? Name(Value::activation, x.stage - 1, x.micro)
                                 : Name(Value::activation_gradient, x.stage, x.micro);
  auto found = arriving_.find(input);
  return found == arriving_.end() || !found->second.by.ticket ? nullptr : &found->second;
}
// [end snippet]

/// Versions of the plans before that this row has no use for.
void RowRun::free_unread() {
  for (auto& [stage, store] : engine_.stores_)
    for (int version = store.versions().begin()->first; version < plan_.first; ++version)
      if (!lifetimes_.needed_after(stage, version, -1)) store.release(version);
}

WeightStore& RowRun::store(int stage) {
  if (auto kept = engine_.stores_.find(stage); kept != engine_.stores_.end()) return kept->second;
  return visiting_.try_emplace(stage, engine_.training_, engine_.form(stage), engine_.device_)
      .first->second;
}

/// Measures what happens while it lives.
class RowRun::Stopwatch {
 public:
  Stopwatch(RowRun& run, const Instruction& x) : run_(run), x_(x), start_(Clock::now()) {}
  ~Stopwatch() {
    run_.result_.records.push_back({run_.engine_.transport_.rank(), Lane::compute, x_,
                                    run_.seconds(start_), run_.seconds(Clock::now())});
  }

 private:
  RowRun& run_;
  const Instruction& x_;
  Clock::time_point start_;
};

void RowRun::forward(const Instruction& x) {
  StageRunner& runner = engine_.runners_.at(x.stage);
  const DevicePtr& device = engine_.device_;
  bool again = runner.under_way(x.micro), last = x.stage == plan_.stages - 1;
  wait_for({Value::turn, x.stage, x.micro});
  StageRunner::Inputs inputs;
  if (!again)
    inputs.x = x.stage == 0 ? batches_.inputs(x.micro, device)
                            : take(Value::activation, x.stage - 1, x.micro);
  if (last) inputs.targets = batches_.targets(x.micro, device);
  inputs.weights = store(x.stage).dense(x.version);
  if (runner.shared_parameters().size() > 0)
    inputs.shared = store(plan_.stages).dense(tied_versions_.at(x.micro - plan_.first_micro()));
  inputs.training = plan_.steps > 0;
  inputs.sink = [this, stage = x.stage, version = plan_.made_by(x.micro)](
                    const Parameter& parameter, const Tensor& dx) {
    int to = parameter.shared ? plan_.stages : stage;
    wait_for_own_sum(to, version);
    store(to).add(version, parameter, dx);
  };

  Stopwatch stopwatch(*this, x);
  Tensor y;
  device->backend().together([&] { y = runner.forward(x.micro, inputs); });
  if (again) return;
  if (!last) {
    here_[{Value::activation, x.stage, x.micro}] = y;
    return;
  }
  keep_loss(x.micro, y);
  if (const auto share = runner.accuracy(x.micro)) result_.accuracies[x.micro] = *share;
}

void RowRun::backward(const Instruction& x) {
  const StageRunner::Part part = StageRunner::part_of(x);
  Tensor dy;
  if (x.stage < plan_.stages - 1 && part != StageRunner::Part::weight)
    dy = take(Value::activation_gradient, x.stage, x.micro);
  Stopwatch stopwatch(*this, x);
  Tensor dx;
  engine_.device_->backend().together([&] {
    for (auto [stage, version] : weights_read(plan_, tied_versions_, x))
      store(stage).dense(version);
    dx = engine_.runners_.at(x.stage).backward(x.micro, dy, part);
  });
  if (dx.defined()) here_[{Value::activation_gradient, x.stage - 1, x.micro}] = dx;
}

namespace {

void add(const std::vector<double>& x, std::vector<double>& sum) {
  sum.resize(x.size());
  std::transform(x.begin(), x.end(), sum.begin(), sum.begin(), std::plus<>());
}

}  // namespace

// [snippet step]
void RowRun::step(const Instruction& x) {
  wait_for_sum(x.stage, x.version);
  std::vector<double> squares =
      plan_.clip ? whole_squares(x.version)
                 : squares_of({{&store(x.stage), store(x.stage).own_sum(x.version), nullptr}});
  Stopwatch stopwatch(*this, x);
  double norm = checked_norm(x, squares);
  double scale = plan_.clip ? clip_scale(norm, engine_.training_.clip) : 1;
  if (plan_.clip)
    result_.norms[x.version] = norm;
  else if (plan_.sharded > 0 || holders_[x.stage].front() == engine_.transport_.rank())
    add(squares, result_.squares[x.version]);
  double rate = engine_.training_.learning_rate.at(x.version - 1);
  bool keep_old = lifetimes_.needed_after(x.stage, x.version - 1, index_);
  if (!keep_old) wait_for_readers(x.stage, x.version - 1);
  const int number = x.version - store(x.stage).begun();
  engine_.device_->backend().together([&] {
    store(x.stage).step({rate, 1.0 / plan_.per_step, scale, number}, keep_old);
  });
  finished_.erase({x.stage, x.version});
  result_.stepped[x.version] = seconds(Clock::now());
}
// [end snippet]

/// Of a step's whole gradient; a rank that holds all stages needs nobody for it.
const std::vector<double>& RowRun::whole_squares(int version) {
  if (auto found = squares_.find(version); found != squares_.end()) return found->second;
  if (auto found = norming_.find(version); found != norming_.end()) {
    wait(*found->second.issued.ticket, found->second.issued.index);
    return squares_[version] = to_host(found->second.squares);
  }
  for (const auto& [stage, store] : engine_.stores_) wait_for_sum(stage, version);
  return squares_[version] = squares_of(counted_gradients(version, {engine_.transport_.rank()}));
}

double RowRun::checked_norm(const Instruction& step, const std::vector<double>& squares) {
  read_losses();
  double norm = std::sqrt(std::accumulate(squares.begin(), squares.end(), 0.0)) / plan_.per_step;
  double loss = 0;
  auto last = result_.losses.lower_bound(step.version * plan_.per_step);
  for (auto at = result_.losses.lower_bound((step.version - 1) * plan_.per_step); at != last; ++at)
    loss += at->second;
  PG_CHECK(std::isfinite(norm) && std::isfinite(loss), "step ", step.version,
           ": the gradient's norm is ", norm, broken_parameter(squares),
           std::isfinite(loss) ? "" : ", and the loss is not finite either",
           "; the weights are as the step before left them. To avoid this, ", when_not_finite);
  return norm;
}

/// The first whose gradient is not finite.
std::string RowRun::broken_parameter(const std::vector<double>& squares) const {
  auto square = squares.begin();
  for (const Parameter& parameter : engine_.training_.whole)
    if (!std::isfinite(*square++)) return text(", as that of ", parameter.name, " is not finite");
  return "";
}

/// A stage is counted by the first rank of the group that holds it, or by the holders of its
/// shards. A sum that goes from holder to holder is counted by the one who has finished it.
bool RowRun::counts(int stage, int version, const std::vector<int>& group) {
  const std::vector<int>& holders = holders_.at(stage);
  if (plan_.sharded > 0) return true;
  auto reducing = reducing_.find({stage, version});
  auto by_group = [this](const Issued& work) { return row_[work.index].op == Op::reduce; };
  bool in_group = reducing != reducing_.end() && by_group(reducing->second);
  if (holders.size() > 1 && !in_group) return store(stage).has_sum(version);
  auto first = std::find_first_of(group.begin(), group.end(), holders.begin(), holders.end());
  return first != group.end() && *first == engine_.transport_.rank();
}

RowRun::Gradients RowRun::counted_gradients(int version, const std::vector<int>& group) {
  Gradients gradients;
  for (auto& [stage, store] : engine_.stores_) {
    if (!counts(stage, version, group)) continue;
    auto found = arriving_.find({Value::gradient_sum, stage, plan_.last_micro_of(version)});
    if (found == arriving_.end())
      gradients.push_back({&store, store.own_sum(version), nullptr});
    else
      gradients.push_back({&store, found->second.value, found->second.by.ticket});
  }
  return gradients;
}

std::vector<double> RowRun::squares_of(const Gradients& gradients) const {
  std::vector<double> result(engine_.training_.whole.size(), 0);
  for (const auto& [store, gradient, by] : gradients) {
    std::vector<double> sums = sums_of_squares(store->own_parameters(), gradient);
    for (std::size_t i = 0; i < sums.size(); ++i) result[store->own_places()[i]] = sums[i];
  }
  return result;
}

}  // namespace paragrad::parallel
