// Each rank goes on until it needs what is not there yet; then it is the next one's turn.
// Chapter 05.
#include "tests/parallel/support/serial.h"

#include "parallel/plan/lifetimes.h"
#include "parallel/schedules/schedule.h"

namespace plangrad::parallel {
namespace {

Tensor copy_of(const Tensor& x) {
  Tensor copy = empty_like(x);
  x.backend().copy(x, copy);
  return copy;
}

}  // namespace

Serial::Serial(const Training& training, int ranks, DevicePtr device, AllReduce reduction,
               std::vector<int> hosts)
    : training_(training),
      device_(std::move(device)),
      reduction_(reduction),
      hosts_(std::move(hosts)),
      ranks_(ranks) {}

std::map<int, double> Serial::run(const VerifiedPlan& verified, Batches& batches) {
  plan_ = &verified.plan();
  batches_ = &batches;
  tied_versions_ = tied_versions(*plan_);
  losses_.clear();
  PG_CHECK(plan_->ranks() == static_cast<int>(ranks_.size()), "the plan is for ", plan_->ranks(),
           " ranks, not ", ranks_.size());
  const auto held = held_stages(*plan_);
  for (int rank = 0; rank < plan_->ranks(); ++rank) prepare(rank, held[rank]);
  bool moved = true;
  while (std::exchange(moved, false))
    for (int rank = 0; rank < plan_->ranks(); ++rank)
      while (ranks_[rank].next < plan_->rows[rank].size() &&
             execute(rank, plan_->rows[rank][ranks_[rank].next])) {
        ++ranks_[rank].next;
        moved = true;
      }
  for (int rank = 0; rank < plan_->ranks(); ++rank)
    PG_CHECK(ranks_[rank].next == plan_->rows[rank].size(), "the plan hangs:\n",
             mark(*plan_, rank, static_cast<int>(ranks_[rank].next)));
  return losses_;
}

void Serial::prepare(int number, const std::set<int>& held) {
  Rank& rank = ranks_[number];
  rank.next = 0;
  std::set<int> stages = visited_stages(*plan_, number);
  stages.insert(held.begin(), held.end());
  for (int stage : stages) add_form(rank, stage);
  if (!plan_->channel.is_none() && !rank.channel)
    rank.channel.emplace(make_channel_of(*plan_, training_, number));
  const CodecSpec& codec = plan_->codec;
  for (int stage : stages) {
    if (codec.is_none() || rank.codecs.contains(stage)) continue;
    const ParameterList& list = parameters(rank, stage);
    if (is_local(codec))
      rank.codecs.emplace(stage, make_codec_of(*plan_, training_, number, stage, list, device_));
    else if (!rank.low_ranks.contains(stage))
      rank.low_ranks[stage] = make_low_rank(codec, list, training_.seed, device_);
  }
  for (int stage : held) {
    if (rank.optimizers.contains(stage)) continue;
    const ParameterList& list = parameters(rank, stage);
    const StateForm& form = *rank.forms.at(stage);
    Tensor all = zeros({form.parameters().numel()}, training_.dtype, device_);
    initialize(form.parameters(), all, training_.seed);
    Tensor first = zeros({list.numel()}, training_.dtype, device_);
    form.compress(all, first);
    rank.shards[stage] = shard_of(*plan_, stage, number);
    auto [begin, end] = own(rank, stage);
    rank.optimizers[stage] =
        training_.optimizer(list.part(begin, end), first.window(begin, {end - begin}));
    const Tensor kept = plan_->sharded == 3 ? only_own(rank, stage, first) : first;
    const int oldest = std::max(0, plan_->first - plan_->kept(stage) + 1);
    for (int version = oldest; version <= plan_->first; ++version)
      rank.weights[{stage, version}] = kept;  // as WeightStore::keep_from does
  }
}

void Serial::add_form(Rank& rank, int stage) {
  const bool tied = stage == plan_->stages;
  if (!tied) rank.runners.try_emplace(stage, training_, stage, device_);
  if (rank.forms.contains(stage)) return;
  const ParameterList& list =
      tied ? training_.shared.parameters : rank.runners.at(stage).parameters();
  rank.forms[stage] =
      training_.form ? training_.form(list, device_) : std::make_shared<StateForm>(list);
  if (!tied) rank.runners.at(stage).read_as(rank.forms[stage]->read());
}

/// All elements of a version, in memory of their own.
Tensor Serial::dense(const Rank& rank, Cell cell) const {
  const StateForm& form = *rank.forms.at(cell.first);
  const Tensor& stored = rank.weights.at(cell);
  if (!form.expands()) return stored;
  Tensor all = empty({form.parameters().numel()}, training_.dtype, device_);
  form.expand(stored, all);
  return all;
}

/// The weights that a forward or backward names: its stage's, and those that stages share.
std::pair<Tensor, Tensor> Serial::weights_named(const Rank& rank, const Instruction& x) const {
  std::pair<Tensor, Tensor> read;
  for (auto [stage, version] : weights_read(*plan_, tied_versions_, x))
    (stage == plan_->stages ? read.second : read.first) = dense(rank, {stage, version});
  return read;
}

const Tensor& Serial::weights(int rank, int stage) const {
  const auto& all = ranks_.at(rank).weights;
  auto next_stage = all.lower_bound({stage + 1, 0});
  PG_CHECK(next_stage != all.begin() && std::prev(next_stage)->first.first == stage, "rank ", rank,
           " does not hold stage ", stage);
  return std::prev(next_stage)->second;
}

Tensor& Serial::sum(Rank& rank, int stage, int version) {
  Tensor& sum = rank.sums[{stage, version}];
  if (!sum.defined())
    sum = zeros({parameters(rank, stage).numel()}, gradient_dtype(training_.dtype), device_);
  return sum;
}

bool Serial::execute(int rank, const Instruction& x) {
  Rank& here = ranks_[rank];
  if (!ready(here, x)) return false;
  switch (x.op) {
    case Op::forward: return forward(here, x);
    case Op::backward: return backward(here, x);
    case Op::step: step(here, x); return true;
    case Op::drop: drop(here, x); return true;
    case Op::send: return send(rank, x);
    case Op::recv: receive(rank, x); return true;
    case Op::fold: return fold(rank, x);
    case Op::reduce:
    case Op::norm:
    case Op::gather: return meet(rank, x);
  }
  throw Error("the serial interpreter does not run " + print(x));
}

/// Whether what is on its way to an instruction has come: weights that it reads, a turn, a sum.
bool Serial::ready(const Rank& rank, const Instruction& x) const {
  std::vector<Name> inputs;
  for (auto [stage, version] : weights_read(*plan_, tied_versions_, x))
    inputs.push_back({Value::weights, stage, version});
  if (x.op == Op::forward) inputs.push_back({Value::turn, x.stage, x.micro});
  if (x.op == Op::send) inputs.push_back({x.what, x.stage, x.micro});
  if (x.op == Op::step)
    inputs.push_back({Value::gradient_sum, x.stage, plan_->last_micro_of(x.version)});
  if (x.what == Value::norm && !plan_->home.empty())
    for (const auto& [stage, optimizer] : rank.optimizers)
      inputs.push_back({Value::gradient_sum, stage, plan_->last_micro_of(x.version)});
  return std::none_of(inputs.begin(), inputs.end(),
                      [&](const Name& name) { return rank.awaited.contains(name); });
}

bool Serial::forward(Rank& rank, const Instruction& x) {
  StageRunner& runner = rank.runners.at(x.stage);
  bool again = runner.under_way(x.micro), last = x.stage == plan_->stages - 1;
  StageRunner::Inputs inputs;
  if (!again && x.stage == 0) inputs.x = batches_->inputs(x.micro, device_);
  if (!again && x.stage > 0) {
    auto value = rank.values.extract({Value::activation, x.stage - 1, x.micro});
    if (!value) return false;
    inputs.x = value.mapped();
  }
  if (last) inputs.targets = batches_->targets(x.micro, device_);
  auto& read = rank.read[{x.stage, x.micro}] = weights_named(rank, x);
  if (plan_->drift > 0)  // backward puts what it reads in these tensors' place
    for (Tensor* each : {&read.first, &read.second})
      if (each->defined()) *each = copy_of(*each);
  std::tie(inputs.weights, inputs.shared) = read;
  inputs.training = plan_->steps > 0;
  inputs.sink = [this, &rank, x](const Parameter& parameter, const Tensor& dx) {
    int stage = parameter.shared ? plan_->stages : x.stage;
    rank.forms.at(stage)->add(parameter, dx, sum(rank, stage, plan_->made_by(x.micro)));
  };
  Tensor y = runner.forward(x.micro, inputs);
  if (last)
    losses_[x.micro] = item(y);
  else if (!again)
    rank.values[{Value::activation, x.stage, x.micro}] = y;
  return true;
}

bool Serial::backward(Rank& rank, const Instruction& x) {
  const Value part = x.what;
  Tensor dy;
  if (x.stage < plan_->stages - 1 && part != Value::weight_part) {
    auto value = rank.values.extract({Value::activation_gradient, x.stage, x.micro});
    if (!value) return false;
    dy = value.mapped();
  }
  const auto [weights, shared] = rank.read.at({x.stage, x.micro});
  if (plan_->drift > 0) {
    const auto [newer, newer_shared] = weights_named(rank, x);
    newer.backend().copy(newer, weights);
    if (shared.defined()) shared.backend().copy(newer_shared, shared);
  }
  Tensor dx = rank.runners.at(x.stage).backward(x.micro, dy, part, weights, shared);
  if (part != Value::input_part) rank.read.erase({x.stage, x.micro});
  if (dx.defined()) rank.values[{Value::activation_gradient, x.stage - 1, x.micro}] = dx;
  return true;
}

void Serial::step(Rank& rank, const Instruction& x) {
  if (auto arrived =
          rank.values.extract({Value::gradient_sum, x.stage, plan_->last_micro_of(x.version)}))
    rank.sums[{x.stage, x.version}] = arrived.mapped();
  const auto [begin, end] = own(rank, x.stage);
  const Tensor gradient = sum(rank, x.stage, x.version).window(begin, {end - begin});
  Tensor after = only_own(rank, x.stage, rank.weights.at({x.stage, x.version - 1}));
  double clip = plan_->clip ? clip_scale(norms_.at(x.version), training_.clip) : 1;
  rank.optimizers.at(x.stage)->step(
      {training_.learning_rate.at(x.version - 1), 1.0 / plan_->per_step, clip, x.version},
      after.window(begin, {end - begin}), gradient);
  rank.weights[{x.stage, x.version}] = after;
  rank.sums.erase({x.stage, x.version});
  rank.encoded.erase({x.stage, x.version});
}

/// Happens when all members stand here; each then passes in its turn. A version may be gathered
/// several times, so passages count.
bool Serial::meet(int rank, const Instruction& x) {
  const std::vector<int>& group = plan_->groups.at(x.peer);
  auto passages = [&](int member) {
    const Row& row = plan_->rows[member];
    return std::count(row.begin(), row.begin() + static_cast<int>(ranks_[member].next), x);
  };
  auto stands_here = [&](int member) {
    const Row& row = plan_->rows[member];
    std::size_t next = ranks_[member].next;
    return next < row.size() && row[next] == x && ready(ranks_[member], x) &&
           passages(member) == passages(rank);
  };
  auto passed = [&](int member) { return passages(member) > passages(rank); };
  if (std::any_of(group.begin(), group.end(), passed)) return true;
  if (!std::all_of(group.begin(), group.end(), stands_here)) return false;
  if (x.op == Op::gather)
    gather(x, group);
  else if (x.op == Op::norm)
    add_squares(x, group);
  else
    add_up(x, group);
  return true;
}

}  // namespace plangrad::parallel
