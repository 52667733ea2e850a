// Stages are made when a plan first needs them, and stay. Two consecutive plans agree on the
// versions between them: the earlier plan keeps those that the header of the later one names.
// Chapter 05.
#include "parallel/engine/engine.h"

#include "parallel/engine/interpreter.h"
#include "parallel/transports/launch.h"

namespace plangrad::parallel {

Engine::Engine(const Training& training, Transport& transport, DevicePtr device, Settings settings)
    : training_(training),
      transport_(transport),
      device_(std::move(device)),
      settings_(settings),
      make_form_(training.form) {
  PG_CHECK(settings.timeout > 0, "the timeout of a wait is ", settings.timeout, " s; use more");
}

/// Checks the shard of a stage. Evaluations need only weights, which ZeRO 1 and 2 keep whole.
static void check_shard(const Plan& plan, int stage, const Shard& here, const Shard& planned) {
  if (plan.steps == 0 && here.zero < 3 && planned.zero < 3) return;
  PG_CHECK(here == planned, "the plan shards stage ", stage, " by ZeRO ", planned.zero, " over ",
           counted(planned.members, "rank"), "; this run began with ZeRO ", here.zero, " over ",
           here.members, ", or with other ranks; save a checkpoint and resume it to change that");
}

/// Whom a plan's ranks sum up with, by the transport's own sums or by messages, and send to.
static Connections connections_of(const Plan& plan, AllReduce reduction) {
  Connections found;
  for (int rank = 0; rank < plan.ranks(); ++rank)
    for (const Instruction& x : plan.rows[rank])
      if (sends(x)) found.messages.insert({rank, x.peer});
  for (const std::vector<int>& group : plan.groups) {
    if (reduction == AllReduce::by_transport) found.sums.insert(group);
    for (int from : group)
      for (int to : group)
        if (from != to && reduction != AllReduce::by_transport) found.messages.insert({from, to});
  }
  return found;
}

void check_fit(const Plan& plan, const Training& training, int ranks) {
  PG_CHECK(plan.ranks() == ranks, "the plan is for ", counted(plan.ranks(), "rank"),
           ", this run has ", ranks);
  PG_CHECK(plan.stages == training.stages(), "the plan has ", counted(plan.stages, "stage"),
           ", the model is ", "cut into ", training.stages());
  std::string users;
  for (int stage : training.shared.stages) users += text(users.empty() ? "" : ",", stage);
  const bool lacks_tied = plan.tied.empty() && !users.empty();
  PG_CHECK(plan.steps == 0 || plan.clip == (training.clip > 0), "gradients are ",
           plan.clip ? "not " : "", "clipped, but the plan is made with", plan.clip ? "" : "out",
           " clipping; make it by plan show or lower ... ",
           plan.clip    ? "without --clip (or clip 1), or train with --clip 1"
           : lacks_tied ? text("--clip --tied (clip 1 tied ", users, " in a header of rows), or ",
                               "train with --clip 0 --untied")
                        : "--clip (clip 1 in a header of rows), or train with --clip 0");
  PG_CHECK(plan.tied == training.shared.stages, "the plan's tied stages are not the model's, ",
           users.empty() ? "which has none; make it by plan show or lower ... without --tied"
                         : text(users, "; make it by plan show or lower ... --tied (tied ", users,
                                " in a header of rows), or train with --untied"));
  check_codecs(plan, training);
}

const StateFormPtr& Engine::form(int stage) {
  StateFormPtr& form = forms_[stage];
  if (form) return form;
  const ParameterList& list =
      stage < training_.stages() ? runners_.at(stage).parameters() : training_.shared.parameters;
  return form = make_form_ ? make_form_(list, device_) : std::make_shared<StateForm>(list);
}

void Engine::change_form(const Plan& like, MakeStateForm make) {
  make_form_ = std::move(make);
  forms_.clear();
  drops_make_form_ = true;
  if (runners_.empty() && stores_.empty()) return;  // nothing has been prepared yet
  const auto ranks = holders(like);
  for (auto& [stage, store] : stores_)
    store.change_form(training_, form(stage),
                      [&, &stage = stage, &store = store](const Tensor& x, std::int64_t count) {
                        return gathered(x, count, store.shard(), ranks.at(stage));
                      });
  codecs_.clear();
  low_ranks_.clear();
  prepare_codecs(like);
  make_forms();
}

// [snippet gathered]
Tensor Engine::gathered(const Tensor& shard, std::int64_t count, const Shard& place,
                        const std::vector<int>& holders) {
  constexpr int channel = 1;  // a group's channel; no plan runs now
  const Tensor whole = empty({count}, shard.dtype(), device_, Category::communication);
  whole.backend().copy(shard, place.window(whole));
  if (settings_.reduction == AllReduce::by_transport) {
    TransportRun run(Joint::all_gather, whole, holders, channel);
    finish(run, transport_, settings_.timeout);
    return whole;
  }
  const Collective steps = all_gather({settings_.reduction}, place.member, place.members);
  CollectiveRun run(steps, whole, holders, channel, transport_.piece_bytes());
  finish(run, transport_, settings_.timeout);
  return whole;
}
// [end snippet]

/// Makes the forms of all stages here. After a pruning, drops make_form_ and the masks it may hold.
void Engine::make_forms() {
  for (const auto& [stage, store] : stores_) form(stage);
  for (auto& [stage, runner] : runners_) {
    runner.read_as(form(stage)->read());
    if (runner.shared_parameters().size() > 0) form(training_.stages());
  }
  if (!std::exchange(drops_make_form_, false)) return;
  make_form_ = [](const ParameterList&, const DevicePtr&) -> StateFormPtr {
    throw Error(
        "this rank computes a stage that it did not have when the run was pruned; save a "
        "checkpoint and resume it");
  };
}

void Engine::set_bits(const Bits& bits) {
  bits_ = bits;
  for (auto& [stage, codec] : codecs_) codec.set_bits(bits);
}

/// The sending rank is part of the key of random numbers, or all ranks would round the same way.
BufferCodec make_codec_of(const Plan& plan, const Training& training, int rank, int stage,
                          const ParameterList& parameters, const DevicePtr& device) {
  return {parameters, plan.codec, RandomKey(training.seed, text("codec ", rank, ' ', stage)),
          device};
}

ChannelCodec make_channel_of(const Plan& plan, const Training& training, int rank) {
  return {plan.channel, RandomKey(training.seed, text("channel ", rank))};
}

/// Makes the codecs of activations, and of stages whose sums come to this rank or leave it.
void Engine::prepare_codecs(const Plan& plan) {
  if (plan.steps == 0) return;  // an evaluation's plan has no codecs
  const std::pair own(plan.codec, plan.channel);
  if (!asked_) asked_ = own;
  PG_CHECK(*asked_ == own, "the plan's codecs are ", print(plan.codec), " and ",
           print(plan.channel), "; this run began with ", print(asked_->first), " and ",
           print(asked_->second), "; save a checkpoint and resume it to change that");
  if (!plan.channel.is_none() && !channel_)
    channel_.emplace(make_channel_of(plan, training_, transport_.rank()));
  if (plan.codec.is_none()) return;
  const int rank = transport_.rank();
  for (int stage : summed_stages(plan, rank)) {
    const ParameterList& list = parameters(stage);
    if (codecs_.contains(stage) || low_ranks_.contains(stage)) continue;
    PG_CHECK(is_local(plan.codec) || list.numel() == form(stage)->parameters().numel(), "--codec ",
             print(plan.codec),
             " makes factors of matrices, of which SAMO stores lists of kept elements; use another",
             " codec, or leave out --samo");
    if (is_local(plan.codec))
      codecs_.emplace(stage, make_codec_of(plan, training_, rank, stage, list, device_))
          .first->second.set_bits(bits_);
    else
      low_ranks_[stage] = make_low_rank(plan.codec, list, training_.seed, device_);
  }
}

void Engine::prepare(const Plan& plan) {
  check_fit(plan, training_, transport_.size());
  PG_CHECK(settings_.reduction != AllReduce::by_transport || plan.codec.is_none(),
           "--reduction nccl: NCCL sums up gradients as they are; use --reduction scatter with a ",
           "codec");
  for (int stage : visited_stages(plan, transport_.rank()))
    if (stage < plan.stages) runners_.try_emplace(stage, training_, stage, device_);
  const auto held = held_stages(plan);
  for (int stage : held.at(transport_.rank())) {
    if (stage < plan.stages) runners_.try_emplace(stage, training_, stage, device_);
    const Shard shard = shard_of(plan, stage, transport_.rank());
    WeightStore& store =
        stores_.try_emplace(stage, training_, form(stage), plan.first, device_, shard)
            .first->second;
    check_shard(plan, stage, store.shard(), shard);
    PG_CHECK(store.newest() == plan.first, "the plan begins with version ", plan.first,
             " of the weights; stage ", stage, " has version ", store.newest());
    store.keep_from(std::max(0, plan.first - plan.kept(stage) + 1));
  }
  prepare_codecs(plan);
  make_forms();
}

int Engine::made_everywhere() const {
  int made = std::numeric_limits<int>::max();
  for (const auto& [stage, store] : stores_) made = std::min(made, store.newest());
  return made;
}

RunResult Engine::run(const VerifiedPlan& verified, Batches& batches, const Course& course) {
  const Plan& plan = verified.plan();
  prepare(plan);
  const int number = ++plans_run_ % (1 << 15);  // fits Position::plan
  transport_.publish({.cell = 0, .plan = static_cast<std::int16_t>(number)});
  broadcast_bytes(transport_, "", settings_.timeout);  // all begin together
  transport_.prepare(connections_of(plan, settings_.reduction));
  Interpreter interpreter(*this, verified, number, batches, course);
  RunResult result;
  try {
    result = interpreter.run();
  } catch (...) {
    if (course.left) *course.left = std::move(interpreter.result());
    throw;
  }
  for (auto& [stage, store] : stores_)
    store.keep_from(std::max(0, result.last_step - plan.kept(stage) + 1));
  return result;
}

}  // namespace plangrad::parallel
