// The table of plan.h, with numbers. A value that is missing is an error; others are waited for.
// Not here: the model's formulas (scalar_model).
#include "tests/parallel/support/scalar_rank.h"

#include <cmath>

namespace plangrad::tests {

using namespace parallel;

void require(bool condition, const Instruction& x, const char* what) {
  if (!condition) throw std::runtime_error(print(x) + ": " + what);
}

namespace {

Promise kept(double value, int gradients = 0) {
  return std::make_shared<ScalarNumber>(ScalarNumber{true, value, gradients});
}

template <class Values, class Name>
Promise& get(Values& values, Name name, const Instruction& x) {
  auto found = values.find(name);
  require(found != values.end(), x, "a value is missing");
  return found->second;
}

template <class Values, class Name>
Promise take(Values& values, Name name, const Instruction& x) {
  Promise promise = get(values, name, x);
  values.erase(name);
  return promise;
}

}  // namespace

ScalarRank::ScalarRank(const Plan& plan, int number, const std::map<int, int>& tied_versions,
                       ScalarOutcome& outcome)
    : plan_(plan), number_(number), tied_versions_(tied_versions), outcome_(outcome) {
  for (int stage = 0; stage < plan.stage_count(); ++stage)
    for (int version = 0; version <= plan.first; ++version) {
      if (!plan.home.empty() && plan.home[stage] != number) continue;
      weights_[{stage, version}] = kept(scalar_first_weight(stage, version));
      shard_[{stage, version}] = plan.sharded == 3;
    }
}

bool ScalarRank::is_tied(int stage) const {
  return std::count(plan_.tied.begin(), plan_.tied.end(), stage) > 0;
}

bool ScalarRank::complete(const Plan& plan, int stage, const Promise& sum) {
  int users = stage == plan.stages ? static_cast<int>(plan.tied.size()) : 1;
  return sum->gradients == users * plan.per_step;
}

Promise ScalarRank::whole_weights(int stage, int version, const Instruction& x) {
  require(!shard_[{stage, version}], x, "only a shard is here");
  return get(weights_, Name{stage, version}, x);
}

bool ScalarRank::compute(const Instruction& x) {
  switch (x.op) {
    case Op::forward: return forward(x);
    case Op::backward: return backward(x);
    case Op::step: return step(x);
    default: return drop(x);
  }
}

/// The numbers that a computation reads; false if they have not arrived.
bool ScalarRank::read(const Instruction& x, ScalarStage& stage) {
  Promise w = whole_weights(x.stage, x.version, x), t = kept(0);
  if (is_tied(x.stage))
    t = whole_weights(plan_.stages, plan_.drift > 0 ? x.version : tied_versions_.at(x.micro), x);
  stage = {w->value, t->value};
  return w->ready && t->ready;
}

/// A microbatch comes by once; computed again, it begins with what was kept and makes nothing.
bool ScalarRank::forward(const Instruction& x) {
  const Name name{x.stage, x.micro}, before{x.stage - 1, x.micro};
  const auto pass = passes_.find(name);
  const bool again = pass != passes_.end();
  require(!again || !pass->second.kept, x, "it has passed before");
  ScalarStage stage;
  Promise in = again          ? kept(pass->second.input)
               : x.stage == 0 ? kept(scalar_input(x.micro))
                              : get(activations_, before, x);
  auto turn = turns_.find(name);
  if (!read(x, stage) || !in->ready || (turn != turns_.end() && !turn->second->ready)) return false;
  if (turn != turns_.end()) turns_.erase(turn);
  if (again) return pass->second.kept = true;
  activations_.erase(before);
  passes_[name].input = in->value;
  const double y = stage.output(in->value);
  if (x.stage == plan_.stages - 1)
    outcome_.losses[x.micro] = std::pow(y - scalar_target(x.micro), 2) / 2;
  else
    activations_[name] = kept(y);
  return true;
}

bool ScalarRank::backward(const Instruction& x) {
  const Name name{x.stage, x.micro};
  const auto found = passes_.find(name);
  require(found != passes_.end() && found->second.kept, x, "activations are missing");
  Pass& pass = found->second;
  ScalarStage stage;
  if (!read(x, stage)) return false;
  const bool is_last = x.stage == plan_.stages - 1, is_first_part = x.what != Value::weight_part;
  require(pass.dy.has_value() != is_first_part, x, "parts of a backward follow each other");
  Promise dy = !is_first_part ? kept(*pass.dy)
               : is_last      ? kept(stage.output(pass.input) - scalar_target(x.micro))
                              : get(gradients_, name, x);
  for (int other : {x.stage, plan_.stages})  // a fold may be under way
    if (auto sum = sums_.find({other, plan_.made_by(x.micro)}); sum != sums_.end())
      if (!sum->second->ready) return false;
  if (!dy->ready) return false;
  if (is_first_part) {
    gradients_.erase(name);
    pass.dy = dy->value;
    if (x.stage > 0)
      gradients_[{x.stage - 1, x.micro}] = kept(stage.input_gradient(pass.input, dy->value));
  }
  if (x.what == Value::input_part) return true;
  add(x.stage, x.micro, stage.weight_gradient(pass.input, dy->value));
  if (is_tied(x.stage)) add(plan_.stages, x.micro, stage.tied_gradient(pass.input, dy->value));
  passes_.erase(found);
  return true;
}

void ScalarRank::add(int stage, int micro, double gradient) {
  Promise& sum = sums_[{stage, plan_.made_by(micro)}];
  sum = sum ? kept(sum->value + gradient, sum->gradients + 1) : kept(gradient, 1);
}

bool ScalarRank::step(const Instruction& x) {
  const Name name{x.stage, x.version}, finished{x.stage, x.version * plan_.per_step - 1};
  const bool has_own = sums_.contains(name);
  Promise sum = has_own ? sums_[name] : get(arrived_, finished, x);
  Promise norm = plan_.clip ? get(norms_, x.version, x) : kept(0);
  if (!sum->ready || !norm->ready) return false;
  require(complete(plan_, x.stage, sum), x, "gradients are missing");
  (has_own ? sums_ : arrived_).erase(has_own ? name : finished);
  const double before = get(weights_, Name{x.stage, x.version - 1}, x)->value;
  const double gradient = plan_.clip ? scalar_clipped(sum->value, norm->value) : sum->value;
  weights_[name] = kept(optimizers_[x.stage].step(before, gradient));
  shard_[name] = plan_.sharded > 0;
  if (x.version == plan_.first + plan_.steps)
    outcome_.weights[{number_, x.stage}] = weights_[name]->value;
  return true;
}

bool ScalarRank::drop(const Instruction& x) {
  if (x.what == Value::gradient_sum) return true;  // a number is its own shard
  if (x.what == Value::activation) {
    const auto pass = passes_.find({x.stage, x.micro});
    require(pass != passes_.end() && pass->second.kept, x, "activations are missing");
    pass->second.kept = false;
    return true;
  }
  if (!whole_weights(x.stage, x.version, x)->ready) return false;
  if (plan_.sharded > 0)
    shard_[{x.stage, x.version}] = true;
  else
    weights_.erase({x.stage, x.version});
  return true;
}

Promise ScalarRank::send(const Instruction& x) {
  if (x.what == Value::turn) return kept(0);
  if (x.what == Value::weights) return whole_weights(x.stage, x.version, x);
  if (x.what == Value::activation) return take(activations_, Name{x.stage, x.micro}, x);
  if (x.what == Value::activation_gradient) return take(gradients_, Name{x.stage, x.micro}, x);
  const int version = plan_.made_by(x.micro);
  const bool came = arrived_.contains({x.stage, x.micro});
  const Instruction step{.op = Op::step, .stage = x.stage, .version = version};
  const Row& row = plan_.rows[number_];
  const bool copied =
      (x.micro + 1) % plan_.per_step == 0 && std::count(row.begin(), row.end(), step) > 0;
  Values& sums = came ? arrived_ : sums_;
  const Name name{x.stage, came ? x.micro : version};
  return copied ? get(sums, name, x) : take(sums, name, x);
}

Promise ScalarRank::receive(const Instruction& x) {
  Values& values = x.what == Value::activation            ? activations_
                   : x.what == Value::activation_gradient ? gradients_
                   : x.what == Value::weights             ? weights_
                   : x.what == Value::turn                ? turns_
                                                          : arrived_;
  const int number = x.what == Value::weights ? x.version : x.micro;
  Promise promise = std::make_shared<ScalarNumber>();
  require(values.insert({{x.stage, number}, promise}).second, x, "it is here already");
  return promise;
}

Promise ScalarRank::fold(const Instruction& x) {
  auto partial = arrived_.lower_bound({x.stage, (plan_.made_by(x.micro) - 1) * plan_.per_step});
  require(partial != arrived_.end() && partial->first < Name{x.stage, x.micro}, x,
          "no partial sum has arrived");
  Promise& own = get(sums_, Name{x.stage, plan_.made_by(x.micro)}, x);
  Promise result = std::make_shared<ScalarNumber>();
  folds_.push_back({partial->second, own, result});
  arrived_.erase(partial);
  return own = result;
}

bool ScalarRank::finish_folds() {
  return std::erase_if(folds_, [](const Fold& fold) {
    if (!fold.arrived->ready || !fold.own->ready) return false;
    *fold.result = {true, fold.arrived->value + fold.own->value,
                    fold.arrived->gradients + fold.own->gradients};
    return true;
  });
}

std::map<int, Promise> ScalarRank::enter(const Instruction& x, const Promise& result) {
  if (x.op == Op::gather) {
    shard_[{x.stage, x.version}] = false;
    return {{x.stage, std::exchange(get(weights_, Name{x.stage, x.version}, x), result)}};
  }
  if (x.what == Value::gradient_sum)
    return {{x.stage, std::exchange(get(sums_, Name{x.stage, x.version}, x), result)}};
  norms_[x.version] = result;
  std::map<int, Promise> brings;
  for (int stage = 0; stage < plan_.stage_count(); ++stage) {
    const bool is_home = !plan_.home.empty() && plan_.home[stage] == number_;
    const Name finished{stage, x.version * plan_.per_step - 1};
    if (!plan_.home.empty() && !is_home) continue;
    if (auto own = sums_.find({stage, x.version}); own != sums_.end())
      brings[stage] = own->second;
    else if (auto came = arrived_.find(finished); is_home && came != arrived_.end())
      brings[stage] = came->second;
  }
  return brings;
}

}  // namespace plangrad::tests
