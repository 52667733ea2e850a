// A cell waits for what the table of operations says that it needs; one function does the work.
// Not here: values and messages (mailbox.h), gradient sums (sum_book.h), norms (loss_and_norm.h).
// Chapter 05.
#include "parallel/engine/interpreter.h"

namespace plangrad::parallel {

Interpreter::Interpreter(Engine& engine, const VerifiedPlan& verified, int number, Batches& batches,
                         const Course& course)
    : run_(engine, verified, number, course.bodies),
      course_(course),
      batches_(batches),
      waiting_(run_, lane_),
      mailbox_(run_, waiting_, lane_),
      book_(run_, mailbox_, waiting_),
      measured_(run_, book_, mailbox_, waiting_),
      progress_(run_, waiting_, lane_, course),
      lane_(engine.transport()) {}

// [snippet interpreter]
RunResult Interpreter::run() {
  run_.records = course_.records;
  free_unread();
  progress_.begin();
  if (run_.plan.in_flight > 0)
    run_driven();
  else
    for (int cell = 0;; ++cell) {
      if (const auto bodies = run_.bodies_before(cell)) pause(*bodies);  // may end the row here
      if (cell >= run_.cells_of(run_.rank)) break;
      run_cell(cell);
    }
  if (run_.has_empty_body())
    for (int bodies = 0; bodies <= run_.bodies; ++bodies) pause(bodies);
  waiting_.reach(run_.cells_of(run_.rank));
  mailbox_.finish();
  if (run_.plan.in_flight > 0) number_records_as_run();
  measured_.read_losses();
  progress_.finish();
  run_.result.last_step = run_.last_step();
  return std::move(run_.result);
}

void Interpreter::run_cell(int cell) {
  waiting_.reach(cell);
  needed_ = run_.needs(cell);
  execute(run_.at(cell));
  for (const Made& weights : run_.ending_at(cell)) {
    mailbox_.wait_for_readers(weights);
    run_.stage(weights.stage).release(weights.version);
  }
}

void Interpreter::execute(const Instruction& x) {
  if (is_compute(x))
    for (const Name& name : needed_)
      if (name.what == Value::weights || name.what == Value::turn) mailbox_.wait_for(name);
  switch (x.op) {
    case Op::forward: return forward(x);
    case Op::backward: return backward(x);
    case Op::step: return step(x);
    case Op::drop: return drop(x);
    case Op::send: return send(x);
    case Op::recv: return receive(x);
    case Op::reduce: return x.what == Value::gradient_sum ? book_.reduce(x) : mailbox_.reduce(x);
    case Op::fold: return book_.fold(x);
    case Op::norm: return measured_.begin(x);
    case Op::gather: return gather(x);
  }
}
// [end snippet]

/// Erases finished entries from tables when the body of an endless plan begins or ends. Tables that
/// grew with the run would end it one day.
void Interpreter::pause(int bodies) {
  mailbox_.forget_finished();
  measured_.forget_stepped();
  progress_.pass_bar(bodies);
}

namespace {

void add_up(const std::vector<double>& x, std::vector<double>& sum) {
  sum.resize(x.size());
  std::transform(x.begin(), x.end(), sum.begin(), sum.begin(), std::plus<>());
}

/// Records a computation, which lasts as long as this object lives, or longer if Prolong waits.
struct Stopwatch {
  RowRun& run;
  const Instruction& x;
  int cell;
  Clock::time_point start = Clock::now();
  double cpu = thread_seconds();

  ~Stopwatch() {
    RunResult& result = run.result;
    const double spent = thread_seconds() - cpu;
    const Prolong& prolong = run.engine.settings().prolong;
    if (prolong && prolong(run.plan, x, start)) ++result.late;
    const double begun = result.seconds(start), end = result.seconds(Clock::now());
    (makes_version(x) ? result.update : result.compute) += end - begun;
    if (makes_version(x)) result.stepped[x.version] = end;
    if (run.records)
      result.records.push_back({run.rank, Lane::compute, x, begun, end, 0, spent, cell});
  }
};

}  // namespace

/// The weights that the cell names, flat: its stage's, and those that stages share.
std::pair<Tensor, Tensor> Interpreter::read_weights() {
  std::pair<Tensor, Tensor> read;
  for (const Name& name : needed_)
    if (name.what == Value::weights)
      (name.stage == run_.plan.stages ? read.second : read.first) =
          run_.stage(name.stage).dense(name.number);
  return read;
}

void Interpreter::forward(const Instruction& x) {
  const Plan& plan = run_.plan;
  StageRunner& runner = run_.engine.runner(x.stage);
  const DevicePtr& device = run_.engine.device();
  const bool again = runner.under_way(x.micro), last = x.stage == plan.stages - 1;
  StageRunner::Inputs inputs;
  if (!again)
    inputs.x = x.stage == 0 ? batches_.inputs(x.micro, device)
                            : mailbox_.take_value({Value::activation, x.stage - 1, x.micro});
  if (last) inputs.targets = batches_.targets(x.micro, device);
  std::tie(inputs.weights, inputs.shared) = read_weights();
  inputs.training = plan.steps > 0;
  inputs.sink = book_.sink(run_.sum_of(x));

  const Stopwatch stopwatch{run_, x, waiting_.cell()};
  Tensor y;
  waiting_.compute();
  device->backend().as_one_launch([&] { y = runner.forward(x.micro, inputs); });
  if (again) return;
  if (!last) return mailbox_.put({Value::activation, x.stage, x.micro}, y);
  measured_.keep_loss(x.micro, y);
  if (const auto share = runner.accuracy(x.micro)) run_.result.accuracies[x.micro] = *share;
}

void Interpreter::backward(const Instruction& x) {
  Tensor dy;
  if (x.stage < run_.plan.stages - 1 && x.what != Value::weight_part)
    dy = mailbox_.take_value({Value::activation_gradient, x.stage, x.micro});
  const Stopwatch stopwatch{run_, x, waiting_.cell()};
  Tensor dx;
  waiting_.compute();
  run_.engine.device()->backend().as_one_launch([&] {
    const auto [weights, shared] = read_weights();
    dx = run_.engine.runner(x.stage).backward(x.micro, dy, x.what, weights, shared);
  });
  if (dx.defined()) mailbox_.put({Value::activation_gradient, x.stage - 1, x.micro}, dx);
}

// [snippet step]
void Interpreter::step(const Instruction& x) {
  const Plan& plan = run_.plan;
  const Made made{x.stage, x.version}, old{x.stage, x.version - 1};
  WeightStore& store = run_.kept(x.stage);
  book_.finish(made);
  const std::vector<double> squares =
      plan.clip ? measured_.whole(x.version) : measured_.of_stage(made);
  const Stopwatch stopwatch{run_, x, waiting_.cell()};
  const double norm = measured_.checked(x.version, squares);
  const double scale = plan.clip ? clip_scale(norm, run_.engine.training().clip) : 1;
  if (plan.clip)
    run_.result.norms[x.version] = norm;
  else if (plan.sharded > 0 || run_.holders[x.stage].front() == run_.rank)
    add_up(squares, run_.result.squares[x.version]);
  const bool keep_old = run_.needed_after(old, waiting_.cell());
  if (!keep_old) mailbox_.wait_for_readers(old);
  const double rate = run_.engine.training().learning_rate.at(x.version - 1);
  waiting_.compute();
  run_.engine.device()->backend().as_one_launch([&] {
    store.step({rate, 1.0 / plan.per_step, scale, x.version - store.begun()}, keep_old);
  });
  book_.end(made);
}
// [end snippet]

void Interpreter::drop(const Instruction& x) {
  if (x.what == Value::activation) return run_.engine.runner(x.stage).drop(x.micro);
  if (x.what == Value::gradient_sum) return book_.drop(x);
  mailbox_.wait_for_readers({x.stage, x.version});
  run_.stage(x.stage).drop(x.version);
}

void Interpreter::send(const Instruction& x) {
  if (x.what == Value::gradient_sum) return book_.send(x);
  if (x.what == Value::turn) return mailbox_.send(x, {});  // a turn is empty
  if (x.what != Value::weights) return mailbox_.send(x, mailbox_.take(value_of(x)));
  const Arriving* arriving = mailbox_.arriving(value_of(x));
  mailbox_.send(x, {run_.stage(x.stage).weights(x.version), arriving ? arriving->by : Issued{}});
}

void Interpreter::receive(const Instruction& x) {
  if (x.what == Value::gradient_sum) return book_.receive(x);
  if (x.what == Value::turn) return mailbox_.receive(x, {});
  if (x.what == Value::weights) return mailbox_.receive(x, run_.stage(x.stage).bring(x.version));
  const Training& training = run_.engine.training();
  const Shape shape =
      output_shape(training.model, 0, training.cuts[x.stage + 1], batches_.shape(x.micro));
  mailbox_.receive_output(x, empty(shape, training.dtype, run_.engine.device()));
}

// [snippet gather]
/// Starts a gather. Computations wait for it where they need it; the cells before give it time.
void Interpreter::gather(const Instruction& x) {
  const Tensor whole = run_.kept(x.stage).bring_shard(x.version);
  const AllReduce how = run_.engine.settings().reduction;
  mailbox_.meet(x, run_.in_group(x.peer, Joint::all_gather, whole, how), whole);
}
// [end snippet]

/// Frees versions from earlier plans that this row does not use.
void Interpreter::free_unread() {
  for (auto& [stage, store] : run_.engine.stores())
    for (int version = store.versions().begin()->first; version < run_.plan.first; ++version)
      if (!run_.lifetimes.needed_after(stage, version, -1)) store.release(version);
}

}  // namespace plangrad::parallel
