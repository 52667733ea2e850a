// A cell waits for what the table of operations says that it needs; one function does the work.
// Not here: values and messages (mailbox.h), gradient sums (sum_book.h), norms (norms.h).
// Chapter 05.
#include "parallel/engine/interpreter.h"

#include <algorithm>

#include "parallel/simulation/cell_order.h"

namespace paragrad::parallel {

Interpreter::Interpreter(Engine& engine, const VerifiedPlan& verified, int number, Batches& batches)
    : engine_(engine),
      row_(verified, engine.transport().rank(), number),
      batches_(batches),
      stores_(engine),
      waiting_(row_, engine.transport(), lane_, engine.settings().timeout),
      mailbox_(row_, waiting_, lane_, engine.channel(), result_),
      groups_(row_, engine.settings().hosts),
      book_(row_, engine, stores_, mailbox_, waiting_, groups_, result_.bit_options),
      norms_(row_, engine, stores_, book_, mailbox_, waiting_, groups_),
      losses_(result_.losses, row_.plan.per_step),
      lane_(engine.transport()) {}

// [snippet interpreter]
RunResult Interpreter::run() {
  free_unread();
  const auto order = make_order(row_.plan, row_.row);
  for (std::vector<int> cells = order->next(); !cells.empty(); cells = order->next()) {
    const int cell = cells.size() == 1 ? cells.front() : first_ready(cells);
    run_cell(cell);
    order->ran(cell);
    if (row_.plan.in_flight > 0) result_.order.push_back(cell);
  }
  waiting_.reach(static_cast<int>(row_.row.size()));
  mailbox_.finish();
  losses_.read();
  return std::move(result_);
}

void Interpreter::run_cell(int cell) {
  waiting_.reach(cell);
  execute(row_.row[cell]);
  for (auto [stage, version] : row_.lifetimes.ending_at(cell)) {
    mailbox_.wait_for_readers({stage, version});
    stores_.at(stage).release(version);
  }
}

void Interpreter::execute(const Instruction& x) {
  if (is_compute(x))
    for (const Name& name : needs(row_.plan, row_.tied_versions, x))
      if (name.what == Value::weights || name.what == Value::turn) mailbox_.wait_for(name);
  switch (x.op) {
    case Op::forward: return forward(x);
    case Op::backward: return backward(x);
    case Op::step: return step(x);
    case Op::drop: return drop(x);
    case Op::send: return send(x);
    case Op::recv: return receive(x);
    case Op::reduce: return book_.reduce(x);
    case Op::fold: return book_.fold(x);
    case Op::norm: return norms_.begin(x);
    case Op::gather: return gather(x);
  }
}
// [end snippet]

namespace {

void add_up(const std::vector<double>& x, std::vector<double>& sum) {
  sum.resize(x.size());
  std::transform(x.begin(), x.end(), sum.begin(), sum.begin(), std::plus<>());
}

/// Measures what happens while it lives.
class Stopwatch {
 public:
  Stopwatch(const RowView& row, const Instruction& x, RunResult& result)
      : row_(row), x_(x), result_(result), start_(Clock::now()) {}
  ~Stopwatch() {
    result_.records.push_back({row_.rank, Lane::compute, x_, since(start_), since(Clock::now())});
  }

 private:
  double since(Clock::time_point time) const {
    return std::chrono::duration<double>(time - result_.begun).count();
  }

  const RowView& row_;
  const Instruction& x_;
  RunResult& result_;
  Clock::time_point start_;
};

}  // namespace

void Interpreter::forward(const Instruction& x) {
  const Plan& plan = row_.plan;
  StageRunner& runner = engine_.runner(x.stage);
  const DevicePtr& device = engine_.device();
  const bool again = runner.under_way(x.micro), last = x.stage == plan.stages - 1;
  StageRunner::Inputs inputs;
  if (!again)
    inputs.x = x.stage == 0 ? batches_.inputs(x.micro, device)
                            : mailbox_.take_value({Value::activation, x.stage - 1, x.micro});
  if (last) inputs.targets = batches_.targets(x.micro, device);
  inputs.weights = stores_.at(x.stage).dense(x.version);
  if (runner.shared_parameters().size() > 0)
    inputs.shared =
        stores_.at(plan.stages).dense(row_.tied_versions.at(x.micro - plan.first_micro()));
  inputs.training = plan.steps > 0;
  inputs.sink = [this, made = row_.sum_of(x)](const Parameter& parameter, const Tensor& dx) {
    book_.add({parameter.shared ? row_.plan.stages : made.stage, made.version}, parameter, dx);
  };

  Stopwatch stopwatch(row_, x, result_);
  Tensor y;
  device->backend().together([&] { y = runner.forward(x.micro, inputs); });
  if (again) return;
  if (!last) return mailbox_.put({Value::activation, x.stage, x.micro}, y);
  losses_.keep(x.micro, y);
  if (const auto share = runner.accuracy(x.micro)) result_.accuracies[x.micro] = *share;
}

void Interpreter::backward(const Instruction& x) {
  const StageRunner::Part part = StageRunner::part_of(x);
  Tensor dy;
  if (x.stage < row_.plan.stages - 1 && part != StageRunner::Part::weight)
    dy = mailbox_.take_value({Value::activation_gradient, x.stage, x.micro});
  Stopwatch stopwatch(row_, x, result_);
  Tensor dx;
  engine_.device()->backend().together([&] {
    for (auto [stage, version] : weights_read(row_.plan, row_.tied_versions, x))
      stores_.at(stage).dense(version);
    dx = engine_.runner(x.stage).backward(x.micro, dy, part);
  });
  if (dx.defined()) mailbox_.put({Value::activation_gradient, x.stage - 1, x.micro}, dx);
}

// [snippet step]
void Interpreter::step(const Instruction& x) {
  const Plan& plan = row_.plan;
  const Made made{x.stage, x.version}, old{x.stage, x.version - 1};
  WeightStore& store = stores_.kept(x.stage);
  book_.finish(made);
  const std::vector<double> squares = plan.clip ? norms_.whole(x.version) : norms_.of_stage(made);
  Stopwatch stopwatch(row_, x, result_);
  losses_.read();
  const double norm = norms_.checked(x.version, squares, result_.losses);
  const double scale = plan.clip ? clip_scale(norm, engine_.training().clip) : 1;
  if (plan.clip)
    result_.norms[x.version] = norm;
  else if (plan.sharded > 0 || row_.holders[x.stage].front() == row_.rank)
    add_up(squares, result_.squares[x.version]);
  const bool keep_old = row_.lifetimes.needed_after(old.stage, old.version, waiting_.cell());
  if (!keep_old) mailbox_.wait_for_readers(old);
  const double rate = engine_.training().learning_rate.at(x.version - 1);
  engine_.device()->backend().together([&] {
    store.step({rate, 1.0 / plan.per_step, scale, x.version - store.begun()}, keep_old);
  });
  book_.end(made);
  result_.stepped[x.version] = std::chrono::duration<double>(Clock::now() - result_.begun).count();
}
// [end snippet]

void Interpreter::drop(const Instruction& x) {
  if (x.what == Value::activation) return engine_.runner(x.stage).drop(x.micro);
  if (x.what == Value::gradient_sum) return book_.drop(x);
  mailbox_.wait_for_readers({x.stage, x.version});
  stores_.at(x.stage).drop(x.version);
}

void Interpreter::send(const Instruction& x) {
  if (x.what == Value::gradient_sum) return book_.send(x);
  if (x.what == Value::turn) return mailbox_.send(x, {});  // it is empty: anyone can make one
  if (x.what != Value::weights) return mailbox_.send(x, mailbox_.take(value_of(x)));
  const Arriving* arriving = mailbox_.arriving(value_of(x));
  mailbox_.send(x, {stores_.at(x.stage).weights(x.version), arriving ? arriving->by : Issued{}});
}

void Interpreter::receive(const Instruction& x) {
  switch (x.what) {
    case Value::turn: return mailbox_.receive(x, {});
    case Value::weights: return mailbox_.receive(x, stores_.at(x.stage).bring(x.version));
    case Value::gradient_sum: return book_.receive(x);
    default:
      mailbox_.receive_output(
          x, empty(shape_of_output(x.stage, x.micro), engine_.training().dtype, engine_.device()));
  }
}

// [snippet gather]
/// Computations wait for it where they need it: what stands between is its time to run.
void Interpreter::gather(const Instruction& x) {
  const Tensor whole = stores_.kept(x.stage).bring_shard(x.version);
  mailbox_.meet(x, groups_.run(all_gather, x.peer, whole, engine_.settings().reduction), whole);
}
// [end snippet]

Shape Interpreter::shape_of_output(int stage, int micro) const {
  const Training& training = engine_.training();
  return output_shape(training.model, 0, training.cuts[stage + 1], batches_.shape(micro));
}

// [snippet first_ready]
/// The first of these computations whose input is here, as soon as there is one.
int Interpreter::first_ready(const std::vector<int>& cells) {
  for (;;) {
    std::vector<const Ticket*> awaited;
    for (int cell : cells) {
      const Arriving* input = input_of(row_.row[cell]);
      if (!input || lane_.is_done(*input->by.ticket)) return cell;
      awaited.push_back(input->by.ticket.get());
    }
    waiting_.wait_for_any(awaited, input_of(row_.row[cells.front()])->by.cell);
  }
}

/// What brings a forward or backward its input; null if no message does.
const Arriving* Interpreter::input_of(const Instruction& x) const {
  const bool from_before = begins_pass(x) && !engine_.runner(x.stage).under_way(x.micro);
  const Arriving* input =
      mailbox_.arriving(from_before ? Name{Value::activation, x.stage - 1, x.micro}
                                    : Name{Value::activation_gradient, x.stage, x.micro});
  return input && input->by.ticket ? input : nullptr;
}
// [end snippet]

/// Versions of the plans before that this row has no use for.
void Interpreter::free_unread() {
  for (auto& [stage, store] : stores_.kept())
    for (int version = store.versions().begin()->first; version < row_.plan.first; ++version)
      if (!row_.lifetimes.needed_after(stage, version, -1)) store.release(version);
}

}  // namespace paragrad::parallel
