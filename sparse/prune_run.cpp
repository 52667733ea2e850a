// Prunes a run. The first rank that holds a stage chooses its masks and sends them to all ranks, so
// that all have the same masks, also if their numbers differ. Chapter 11.
#include "sparse/prune_run.h"

#include "parallel/session/session_rank.h"
#include "sparse/samo.h"

namespace plangrad::sparse {

using nlohmann::json;

/// The kept elements of each pruned parameter of a stage.
static Masks masks_of(const StateForm& form) {
  Masks masks;
  for (const Parameter& parameter : form.pruned()) {
    const auto index = to_host(form.index().window(parameter.offset, parameter.shape));
    masks[parameter.name].assign(index.begin(), index.end());
  }
  return masks;
}

/// Adds the parameters of a stage that can be pruned, with keys from its newest weights.
static void add_candidates(const WeightStore& store, const Tensor& stored,
                           const ParameterList& whole, const PruneSettings& settings,
                           std::vector<Candidate>& candidates) {
  const ParameterList& list = store.form().parameters();
  const Tensor all = empty({list.numel()}, stored.dtype(), stored.device(), Category::workspace);
  store.form().expand(stored, all);
  const Masks before = masks_of(store.form());
  const std::vector<std::size_t> places = nn::places(list, whole);
  auto place = places.begin();
  for (const Parameter& p : list) {
    const std::size_t here = *place++;
    if (!is_prunable(p, settings.all)) continue;
    const auto mask = before.find(p.name);
    candidates.push_back({p.name, here, {}});
    candidates.back().keys = settings.method == "random"
                                 ? random_keys(p.name, p.shape.numel(), settings.seed)
                                 : magnitude_keys(p.name, to_host(all.window(p.offset, p.shape)),
                                                  mask == before.end() ? nullptr : &mask->second);
  }
}

/// Returns the candidates of the stages whose masks this rank chooses. All ranks that hold a shard
/// of such a stage call it, to gather the stage.
static std::vector<Candidate> own_candidates(Engine& engine, const Plan& like,
                                             const PruneSettings& settings) {
  std::vector<Candidate> candidates;
  const auto ranks = holders(like);
  for (auto& [stage, store] : engine.stores()) {
    Tensor stored = store.versions().at(store.newest());
    if (store.shard().zero == 3)
      stored = engine.gathered(stored, store.parameters().numel(), store.shard(), ranks.at(stage));
    if (ranks.at(stage).front() != engine.transport().rank()) continue;
    AtWork preparing(engine.transport(), Work::preparing);
    add_candidates(store, stored, engine.training().whole, settings, candidates);
  }
  return candidates;
}

static std::int64_t elements_of(const std::vector<Candidate>& candidates) {
  std::int64_t count = 0;
  for (const Candidate& c : candidates) count += static_cast<std::int64_t>(c.keys.size());
  return count;
}

int lottery_rounds(double fraction) {
  constexpr double left_by_a_round = 0.8;
  return std::max(
      1, static_cast<int>(std::ceil(std::log(1 - fraction) / std::log(left_by_a_round) - 1e-9)));
}

int PruneRun::next_pruning(int steps) const {
  const std::string& method = settings_.method;
  const int after = settings_.after, every = settings_.every;
  int last = after;
  if (method == "gradual") last = settings_.until;
  if (method == "lottery") last = after + lottery_rounds(settings_.fraction) * every;
  if (method == "early-bird") last = found_ ? -1 : never;
  if (steps > last) return never;
  const int first = method == "gradual" ? 1 : 0;  // its fraction is 0 at the first one
  const int times = std::max(first, (std::max(steps - after, 0) + every - 1) / every);
  return std::min(after + times * every, last);
}

double PruneRun::fraction_at(int steps) const {
  const double fraction = settings_.fraction;
  const int after = settings_.after;
  if (settings_.method == "gradual")
    return gradual_fraction(fraction, steps, after, settings_.until);
  if (settings_.method == "lottery")
    return lottery_fraction(fraction, (steps - after) / settings_.every, lottery_rounds(fraction));
  return fraction;
}

json PruneRun::maybe_prune(Engine& engine, const Plan& like, int steps) {
  const bool lottery = settings_.method == "lottery";
  if (lottery && steps <= settings_.after) {
    for (auto& [stage, store] : engine.stores()) store.remember();
    return {{"remembered", steps}};
  }
  const double fraction = fraction_at(steps);
  const SumCounts sum = sum_over(engine.transport(), engine.settings().timeout);
  const std::vector<Candidate> candidates = own_candidates(engine, like, settings_);
  Masks masks = settings_.method == "global"
                    ? prune_all(candidates, engine.training().whole.size(), fraction, sum)
                    : prune_each(candidates, fraction);
  elements_ = sum({elements_of(candidates)}).front();
  if (settings_.method == "early-bird") {
    const double distance = bird_.distance(masks, elements_of(candidates), sum);
    json found{{"distance", std::isfinite(distance) ? json(distance) : json()}};
    found_ = distance <= EarlyBird::threshold;
    if (found_) found.update(prune(engine, like, masks));
    return found;
  }
  json found = prune(engine, like, masks);
  if (!lottery) return found;
  for (auto& [stage, store] : engine.stores()) store.rewind(engine.training());
  return found;
}

json PruneRun::prune(Engine& engine, const Plan& like, const Masks& own) {
  set_form(engine, like, all_masks(engine.transport(), own, engine.settings().timeout));
  const json now = summary();
  return {{"pruned", now.at("fraction")}, {"kept", now.at("kept")}, {"elements", elements_}};
}

void PruneRun::set_form(Engine& engine, const Plan& like, Masks all) {
  for (const auto& [name, index] : all) kept_[name] = static_cast<std::int64_t>(index.size());
  auto masks = std::make_shared<const Masks>(std::move(all));
  engine.change_form(like, settings_.sparse ? form_of<SparseForm>(masks)
                           : settings_.samo ? form_of<SamoForm>(masks)
                                            : form_of<MaskedForm>(masks));
}

void PruneRun::resume(const Checkpoint& checkpoint, SessionRank& rank) {
  Engine& engine = rank.engine();
  Masks masks;
  elements_ = 0;
  looked_ = static_cast<int>(checkpoint.step());
  for (const Parameter& p : engine.training().whole)
    if (auto index = checkpoint.index(p.name)) {
      masks[p.name] = std::move(*index);
      elements_ += p.shape.numel();
    }
  if (settings_.method == "early-bird")
    bird_.draws =
        read_draws(checkpoint, engine.training().whole, settings_.fraction, engine.device());
  if (masks.empty()) return;
  found_ = true;
  set_form(engine, rank.like()->plan(), std::move(masks));
  rank.form_changed("pruned");
}

std::string PruneRun::lacks(int updates) const {
  if (!found_ && !bird_.draws.empty()) return "masks that are drawn are saved between plans only";
  const int next = next_pruning(looked_ + 1);
  return next <= updates ? text("its weights were to be pruned after update ", next) : "";
}

void PruneRun::save(Saving& saving) {
  if (!found_) write_draws(saving.rank.engine(), saving.plan, bird_.draws, saving.write_file);
}

json PruneRun::summary() const {
  if (kept_.empty()) return nullptr;
  std::int64_t kept = 0;
  for (const auto& [name, count] : kept_) kept += count;
  return {{"method", settings_.method},
          {"samo", settings_.samo},
          {"sparse_compute", settings_.sparse},
          {"fraction", 1 - static_cast<double>(kept) / static_cast<double>(elements_)},
          {"kept", kept},
          {"elements", elements_},
          {"layers", kept_}};
}

std::string PruneRun::carry_out(SessionRank& rank, const Nothing&) {
  const json found = maybe_prune(rank.engine(), rank.plan_at_work(), rank.steps());
  looked_ = rank.steps();
  if (found.contains("pruned")) rank.form_changed("pruned");
  return found.dump();
}

void PruneRun::ready(Lead& lead) {
  lead.summary()["pruned"] = summary();
  if (lead.steps() == 0 && next_pruning(0) == 0) prune_all_ranks(lead);
}

void PruneRun::plan_ended(Lead& lead, const PlanEnd& plan) {
  if (next_pruning(plan.before + 1) <= plan.done) prune_all_ranks(lead);
}

/// Prunes if it is time, and logs what rank 0 found; all ranks find the same.
void PruneRun::prune_all_ranks(Lead& lead) {
  const json found = json::parse(ask(lead).front());
  lead.note("pruning", found);
  lead.summary()["pruned"] = summary();
  if (!found.contains("pruned")) return;
  if (!std::exchange(pruned_, true)) lead.record_again("pruning");
  lead.say(text("step ", lead.steps(), ": pruned to ", found.at("kept"), " of ",
                found.at("elements"), " elements"));
}

}  // namespace plangrad::sparse
