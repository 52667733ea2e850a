// Ranks that keep a stage hold its weights in equal versions between plans, so that nothing but a
// fault makes them compute different bits.
// Chapter 05.
#include "examples/elastic/silent_errors.h"

#include "parallel/session/agreement.h"
#include "parallel/session/session_rank.h"
#include "parallel/transports/launch.h"

namespace plangrad::examples {
namespace {

class ChecksumsOfRank {
 public:
  ChecksumsOfRank(Engine& engine, const Plan& like, Batches& batches, int micro)
      : engine_(engine),
        training_(engine.training()),
        transport_(engine.transport()),
        batches_(batches),
        micro_(micro),
        holders_(holders(like)) {}

  std::vector<Checksum> all() {
    const int tied = training_.stages();
    if (training_.shared.stages.size() > 0 && holds(tied)) shared_ = whole_weights(tied);
    for (int stage = 0; stage < tied; ++stage) add_stage(stage);
    exchange_messages();
    return std::move(checksums_);
  }

 private:
  bool holds(int stage) const {
    return std::ranges::count(holders_.at(stage), transport_.rank()) > 0;
  }

  /// The weights of a stage that this rank keeps, as forward reads them. With ZeRO 3, all that keep
  /// it call this together.
  Tensor whole_weights(int stage) {
    WeightStore& store = engine_.stores().at(stage);
    if (store.shard().zero < 3) return store.dense(store.newest());
    const StateForm& form = store.form();
    const Tensor stored = engine_.gathered(store.versions().at(store.newest()),
                                           form.stored().numel(), store.shard(), holders_[stage]);
    if (!form.expands()) return stored;
    const Tensor all = empty({form.parameters().numel()}, stored.dtype(), engine_.device());
    form.expand(stored, all);
    return all;
  }

  void add_stage(int stage) {
    const std::vector<int>& ranks = holders_.at(stage);
    const int rank = transport_.rank(), size = transport_.size();
    const int keeper = ranks.front(), next = (keeper + 1) % size;
    const bool alone = ranks.size() == 1;
    StageRunner runner(training_, stage, engine_.device());
    const bool reads_shared = runner.shared_parameters().size() > 0;
    Tensor weights, shared;
    bool lends = alone && size > 1;  // the keeper says whether it does
    if (holds(stage)) {
      const StateForm& form = engine_.stores().at(stage).form();
      weights = whole_weights(stage);
      if (reads_shared) shared = shared_;
      runner.read_as(form.read());
      checksums_.push_back({stage, "weights", checksum_of(weights)});
      if (lends) {
        lends = !form.has_index();
        pass(next, true, flag_of(lends));
      }
      if (lends) pass(next, true, weights);
      if (lends && reads_shared) pass(next, true, shared);
      compute(stage, runner, weights, shared);
      if (alone && !lends) compute(stage, runner, weights, shared);
    } else if (lends && rank == next) {
      const Tensor flag = flag_of(false);
      pass(keeper, false, flag);
      if (item(flag) == 0) return;
      weights = empty({runner.parameters().numel()}, training_.dtype, engine_.device());
      pass(keeper, false, weights);
      if (reads_shared) {
        shared = empty({training_.shared.parameters.numel()}, training_.dtype, engine_.device());
        pass(keeper, false, shared);
      }
      checksums_.push_back({stage, "weights", checksum_of(weights)});
      compute(stage, runner, weights, shared);
    }
  }

  Tensor flag_of(bool value) const { return full({1}, value, DType::f32, engine_.device()); }

  /// Values of a normal distribution, the same on every rank.
  Tensor drawn(const Shape& shape, const char* what, int stage) const {
    const Tensor x = empty(shape, training_.dtype, engine_.device());
    x.backend().fill_normal(RandomKey(training_.seed + micro_, text(what, stage)), 0, 1, x);
    return x;
  }

  void compute(int stage, StageRunner& runner, const Tensor& weights, const Tensor& shared) {
    const AtWork computing(transport_, Work::preparing);
    const bool last = stage == training_.stages() - 1;
    const Shape entering = batches_.shape(micro_);
    StageRunner::Inputs inputs;
    inputs.weights = weights;
    inputs.shared = shared;
    inputs.x = stage == 0 ? batches_.inputs(micro_, engine_.device())
                          : drawn(output_shape(training_.model, 0, training_.cuts[stage], entering),
                                  "activations that enter stage ", stage);
    if (last) inputs.targets = batches_.targets(micro_, engine_.device());
    std::uint32_t gradients = 0;
    inputs.sink = [&](const Parameter&, const Tensor& dx) {
      gradients = checksum_of(dx, gradients);
    };
    const Tensor y = runner.forward(micro_, inputs);
    checksums_.push_back({stage, last ? "loss" : "activations", checksum_of(y)});
    const Tensor dy = last ? Tensor() : drawn(y.shape(), "gradients that enter stage ", stage);
    const Tensor dx = runner.backward(micro_, dy, Value::none, weights, shared);
    checksums_.push_back({stage, "gradients of the weights", gradients});
    if (dx.defined())
      checksums_.push_back({stage, "gradients of the activations", checksum_of(dx)});
  }

  /// Sends a tensor, or receives it, as a plan's messages are sent.
  void pass(int peer, bool sends, const Tensor& x) {
    const Message message{peer, plan_channel, x.raw(), x.bytes()};
    const auto request = sends ? transport_.send(message) : transport_.receive(message);
    wait_for(transport_, *request, engine_.settings().timeout,
             text("what is compared with rank ", peer), peer);
  }

  /// Each rank sends the next one a message, the even ranks first.
  void exchange_messages() {
    const int rank = transport_.rank(), size = transport_.size();
    if (size == 1) return;
    const int next = (rank + 1) % size, before = (rank + size - 1) % size;
    const Tensor sent = drawn({1 << 14}, "message ", rank);
    const Tensor received = empty_like(sent);
    auto add = [&](int from, const Tensor& x) {
      checksums_.push_back(
          {-1, text("message of rank ", from, " to rank ", (from + 1) % size), checksum_of(x)});
    };
    for (const bool sends : {rank % 2 == 0, rank % 2 != 0})
      pass(sends ? next : before, sends, sends ? sent : received);
    add(rank, sent);
    add(before, received);
  }

  Engine& engine_;
  const Training& training_;
  Transport& transport_;
  Batches& batches_;
  const int micro_;
  const std::vector<std::vector<int>> holders_;
  Tensor shared_;
  std::vector<Checksum> checksums_;
};

std::string names_of(const std::set<int>& ranks) {
  std::string names;
  for (int rank : ranks) names += text(names.empty() ? "" : " and ", rank);
  return text(ranks.size() == 1 ? "rank " : "ranks ", names);
}

/// `alike`: whether the suspects have seen the same; else one of them is right.
std::string difference(const Checksum& thing, const std::set<int>& suspects, bool alike) {
  const std::string names = names_of(suspects);
  if (thing.stage < 0) return "the " + thing.what + " changed on its way";
  const std::string what = text(thing.what, " of stage ", thing.stage);
  if (alike) return text(names, suspects.size() == 1 ? " has" : " have", " wrong ", what);
  if (suspects.size() == 1) return text(names, " computes other ", what, " each time");
  return text(names, " have different ", what, ": one of them has wrong ones");
}

}  // namespace

std::vector<Checksum> checksums_of(Engine& engine, const Plan& like, Batches& batches, int micro) {
  return ChecksumsOfRank(engine, like, batches, micro).all();
}

void compare_checksums(const std::vector<std::vector<Checksum>>& ranks, const std::string& when) {
  struct Seen {
    std::map<std::uint32_t, std::multiset<int>> by;  // who saw which checksum
  };
  std::vector<std::pair<const Checksum*, Seen>> things;  // in the order of the first that has them
  for (int rank = 0; rank < static_cast<int>(ranks.size()); ++rank)
    for (const Checksum& checksum : ranks[rank]) {
      auto known = std::ranges::find_if(things, [&](const auto& thing) {
        return thing.first->stage == checksum.stage && thing.first->what == checksum.what;
      });
      if (known == things.end()) known = things.insert(known, {&checksum, {}});
      known->second.by[checksum.checksum].insert(rank);
    }
  for (const auto& [thing, seen] : things) {
    if (seen.by.size() == 1) continue;
    std::size_t all = 0, most = 0;
    for (const auto& [checksum, who] : seen.by) {
      all += who.size();
      most = std::max(most, who.size());
    }
    std::set<int> suspects;
    for (const auto& [checksum, who] : seen.by)
      if (2 * most <= all || who.size() < most) suspects.insert(who.begin(), who.end());
    throw WrongState(text("--check: a silent error ", when, ": ",
                          difference(*thing, suspects, 2 * most > all),
                          ". A processor, a memory or a network is at fault; resume the last ",
                          "checkpoint, without that machine"));
  }
}

std::vector<Checksum> SilentErrors::carry_out(SessionRank& rank, const Nothing&) {
  const Plan plan = rank.plan_at_work();
  return checksums_of(rank.engine(), plan, rank.data().training(), rank.steps() * plan.per_step);
}

void SilentErrors::plan_ended(Lead& lead, const PlanEnd& plan) {
  if (!is_due(every_, plan.before, plan.done)) return;
  compare_checksums(ask(lead), text("after update ", plan.done));
  ++times_;
}

void SilentErrors::ended(Lead& lead) {
  if (times_ > 0) lead.say(text("silent errors: looked for ", times_, "x, found none"));
}

}  // namespace plangrad::examples
