// Stages are made when the first plan needs them, and stay. Two plans that follow each other agree
// on the versions that lie between them: the plan before keeps what the next one's header names.
// Chapter 05.
#include "parallel/engine.h"

#include <algorithm>

#include "parallel/row_run.h"
#include "parallel/transports/launch.h"

namespace paragrad::parallel {

Engine::Engine(const Training& training, Transport& transport, DevicePtr device, Settings settings)
    : training_(training), transport_(transport), device_(std::move(device)), settings_(settings) {
  PG_CHECK(settings.timeout > 0, "a wait of ", settings.timeout, " s can't succeed");
}

namespace {

/// An evaluation needs no more than weights: with ZeRO 1 and 2 whole ones are everywhere.
void check_shard(const Plan& plan, int stage, const Shard& here, const Shard& planned) {
  if (plan.steps == 0 && here.zero < 3 && planned.zero < 3) return;
  PG_CHECK(here == planned, "the plan shards stage ", stage, " by ZeRO ", planned.zero, " over ",
           planned.members, " ranks; this run began with ZeRO ", here.zero, " over ", here.members,
           ", or with other ranks; save a checkpoint and resume it to change that");
}

}  // namespace

void check_fit(const Plan& plan, const Training& training, int ranks) {
  PG_CHECK(plan.ranks() == ranks, "the plan is for ", plan.ranks(), " ranks, this run has ", ranks);
  PG_CHECK(plan.stages == training.stages(), "the plan has ", plan.stages, " stages, the model is ",
           "cut into ", training.stages());
  PG_CHECK(plan.steps == 0 || plan.clip == (training.clip > 0), "gradients are ",
           training.clip > 0 ? "clipped" : "not clipped", ", the plan is made for the contrary; ",
           training.clip > 0 ? "make it by plan show ... --clip, or train with --clip 0"
                             : "make it by plan show ... without --clip, or train with --clip 1");
  std::string users;
  for (int stage : training.shared.stages) users += autograd::text(users.empty() ? "" : ",", stage);
  PG_CHECK(plan.tied == training.shared.stages, "the plan's tied stages are not the model's, ",
           users.empty()
               ? "which has none; make it by plan show ... without --tied"
               : text(users, "; make it by plan show ... --tied, or train with --untied"));
}

const ParameterList& Engine::parameters(int stage) const {
  return stage < training_.stages() ? runners_.at(stage).parameters() : training_.shared.parameters;
}

void Engine::prepare(const Plan& plan) {
  check_fit(plan, training_, transport_.size());
  for (int stage : visited_stages(plan, transport_.rank()))
    if (stage < plan.stages) runners_.try_emplace(stage, training_, stage, device_);
  const auto held = held_stages(plan);
  for (int stage : held.at(transport_.rank())) {
    if (stage < plan.stages) runners_.try_emplace(stage, training_, stage, device_);
    const Shard shard = shard_of(plan, stage, transport_.rank());
    WeightStore& store =
        stores_.try_emplace(stage, training_, parameters(stage), plan.first, device_, shard)
            .first->second;
    check_shard(plan, stage, store.shard(), shard);
    PG_CHECK(store.newest() == plan.first, "the plan begins with version ", plan.first,
             " of the weights; stage ", stage, " has version ", store.newest());
    store.keep_from(std::max(0, plan.first - plan.kept(stage) + 1));
  }
}

RunResult Engine::run(const VerifiedPlan& verified, Batches& batches) {
  const Plan& plan = verified.plan();
  prepare(plan);
  transport_.publish(RowRun::position(++plans_run_, 0));
  broadcast_bytes(transport_, "", settings_.timeout);  // all begin together
  RunResult result = RowRun(*this, verified, batches).run();
  for (auto& [stage, store] : stores_)
    store.keep_from(std::max(0, plan.first + plan.steps - plan.kept(stage) + 1));
  return result;
}

}  // namespace paragrad::parallel
