// Finds the parts of a layout that flags leave open, and rejects combinations that do not fit.
// Not here: how many ranks a schedule needs (plan_flags.h). Chapter 06.
#include "examples/programs/run_layout.h"

#include "examples/programs/program.h"
#include "nn/checkpoint/checkpoint.h"
#include "parallel/transports/launch.h"
#include "parallel/verifier/verify.h"

namespace plangrad::examples {

RunLayout::RunLayout(const RunFlags& run, int started, bool tied, int layers)
    : run_(run), tied_(tied), parts_(run.parts), ranks_(started > 0 ? started : run.ranks) {
  PG_CHECK(run.ranks == 0 || run.ranks == ranks_, "--ranks ", run.ranks, ", but ",
           counted(ranks_, "rank"), ranks_ == 1 ? " was started" : " were started");
  if (!parts_.plan_file.empty()) {
    read_own_plan();
  } else {
    choose_buckets(layers);
    parts_.fit(ranks_);
  }
  layout_ = parts_.found();
  if (!parts_.gives("gap")) layout_.gap = 3;  // a backward takes about as long as two forwards
  choose_clip();
  if (run.resumed) first_ = static_cast<int>(run.resumed->manifest().step);
  const std::string why = parts_.cyclic() ? text("one for each of ", layout_.stages, " stages")
                                          : text("--microbatches ", layout_.microbatches,
                                                 " x --data-parallel ", layout_.width);
  PG_CHECK(run.batch % pieces() == 0, "--batch ", run.batch, " does not divide into ", pieces(),
           " microbatches (", why, ")");
  // Plans of up to three updates are made before a run begins; a forward brings about 8 cells.
  // A run, which takes long anyway, may wait twice as long for them as a command of plan.
  constexpr int most = 2 * parallel::most_cells;
  const double cells = own_plan_ ? 0 : 3.0 * 8 * per_step() * layout_.stages;
  PG_CHECK(cells <= most, "three updates of ", per_step(), " microbatches (", why, ") in ",
           counted(layout_.stages, "stage"), " would have about ", cells, " cells, and ", most,
           " are possible: use fewer ", parts_.cyclic() ? "--stages" : "microbatches");
  plans_ = make_plans();
  int wanted = first_plan()->plan().ranks();
  if (ranks_ == 0) ranks_ = wanted;
  PG_CHECK(wanted == ranks_, counted(ranks_, "rank"), ": --plan ", parts_.plan_file, " needs ",
           wanted);
  choose_reduction();
  check_reduction();
}

void RunLayout::read_own_plan() {
  own_plan_ = read_plan(parts_.plan_file);
  parallel::verify(*own_plan_);
  PG_CHECK(own_plan_->steps > 0, "--plan ", parts_.plan_file, " makes no updates");
  int delay = *std::max_element(own_plan_->keep.begin(), own_plan_->keep.end()) - 1;
  const bool repeats = !own_plan_->is_endless() && own_plan_->steps != run_.steps;
  PG_CHECK(!repeats || own_plan_->first >= delay, "--plan ", parts_.plan_file,
           " is a plan of delayed updates that begins like the beginning of a run, so it can't be ",
           "repeated; make it by plan show ... --first ", delay, ", or by first ", delay,
           " in a header of rows for later updates");
  if (run_.saved_files.contains("--plan")) {
    // Compare plans, not their texts: headers of earlier versions say more.
    const nlohmann::json saved = run_.resumed_run().value("plan", nlohmann::json());
    PG_CHECK(saved.is_string() && parallel::parse(saved) == *own_plan_,
             "--resume: ", parts_.plan_file,
             " is not the plan that its checkpoint says the run was made with; to continue with ",
             "this one, add --plan ", parts_.plan_file);
  }
  PG_CHECK(own_plan_->is_endless() || run_.stop_after % own_plan_->steps == 0, "--plan ",
           parts_.plan_file, " makes ", own_plan_->steps,
           " updates at a time, which does not divide the ", run_.stop_after, " of --stop-after");
  parts_.layout.stages = own_plan_->stages;
  parts_.layout.microbatches = own_plan_->per_step;
  check_layout({}, parts_.layout);  // its cuts
}

/// Turns clipping off for schedules that can't wait for the norm of the gradient.
void RunLayout::choose_clip() {
  const char* why_not = parts_.behaviour().why_no_clip;
  if (!why_not || run_.clip == 0) return;
  PG_CHECK(!run_.resumed && !run_.typed.contains("--clip"), "--clip ", run_.clip, ": the schedule ",
           parts_.schedule, ' ', why_not);
  run_.clip = 0;
}

/// Cuts replicas into a few stages, whose sums overlap with the backward of the stages before them.
/// A sum by NCCL is a single call, so four of them cost little more than one. With --zero 2 or 3
/// the next backward waits for a sum, to drop it.
void RunLayout::choose_buckets(int layers) {
  constexpr int buckets = 4;
  const bool is_data = parts_.schedule.empty() || parts_.schedule == "data";
  const bool has_replicas = std::max(ranks_, parts_.layout.width) > 1;
  const bool is_plain =
      !parts_.layout.recompute && parts_.layout.zero <= 1 && parts_.layout.codec.is_none();
  const bool by_nccl =
      run_.reduction == "nccl" || (run_.reduction == "auto" && run_.transport == "nccl");
  if (parts_.gives("stages") || !is_data || !has_replicas || !is_plain || !by_nccl) return;
  parts_.schedule = "data";
  parts_.set("stages", parts_.layout.stages, std::min(buckets, layers));
  chose_buckets_ = parts_.layout.stages > 1;
}

/// Chooses NCCL's own sums where they can be: a sum is one call, instead of one for each piece. So
/// is a gather of what ZeRO shards.
void RunLayout::choose_reduction() {
  if (run_.reduction != "auto") return;
  const parallel::Plans::Shared shared = first_plan();
  const parallel::Plan& sample = shared->plan();
  chose_reduction_ = run_.transport == "nccl" && parallel::sums_in_groups(sample);
  run_.reduction = chose_reduction_ && sample.codec.is_none() ? "nccl" : "scatter";
}

parallel::AllReduce RunLayout::reduction() const {
  if (run_.reduction == "nccl") return parallel::AllReduce::by_transport;
  return parallel::reductions().at(run_.reduction);
}

/// Rejects a reduction without effect; one that a resumed or elastic run had before becomes `auto`.
void RunLayout::check_reduction() try {
  const parallel::AllReduce how = reduction();
  PG_CHECK(run_.ranks_per_host == 0 || entry_of(how).by_hosts || run_.pretend.cards,
           "--ranks-per-host ", run_.ranks_per_host, ": --reduction ", run_.reduction,
           " ignores hosts; leave it out, or use --reduction hierarchical or --pretend-cards");
  if (how == parallel::AllReduce::scatter_reduce) return;
  const parallel::Plans::Shared shared = first_plan();
  const parallel::Plan& sample = shared->plan();
  PG_CHECK(parallel::sums_in_groups(sample), "--reduction ", run_.reduction,
           ": in this plan no group of ", "ranks sums gradients",
           parts_.cyclic() ? ", they travel from rank to rank" : "", "; leave this flag out");
  const bool by_nccl = how == parallel::AllReduce::by_transport;
  if (sample.sharded > 0 && !by_nccl) parallel::reduce_scatter({how}, 0, 1);  // throws if it can't
  PG_CHECK(!by_nccl || sample.codec.is_none(),
           "--reduction nccl: NCCL sums up values as they are, and codec ",
           parallel::print(sample.codec), " encodes them; leave out one of the two");
  if (run_.ranks_per_host > 0 && !hosts().empty()) parallel::check_hosts(sample, hosts());
} catch (const autograd::Error&) {
  if (run_.asks({"--reduction", "--ranks-per-host"})) throw;
  run_.reduction = "auto";
  if (!run_.pretend.cards) run_.ranks_per_host = 0;
  choose_reduction();
}

/// Returns the ranks' hosts. Threads are all on one host, unless --ranks-per-host says otherwise.
std::vector<int> RunLayout::hosts() const {
  if (!entry_of(reduction()).by_hosts) return {};
  if (run_.ranks_per_host == 0 && run_.transport == "mpi") return {};
  std::vector<int> hosts;  // by rank
  for (int rank = 0; rank < ranks_; ++rank)
    hosts.push_back(rank / (run_.ranks_per_host > 0 ? run_.ranks_per_host : ranks_));
  return hosts;
}

int RunLayout::per_step() const {
  if (own_plan_) return own_plan_->per_step;
  return updates_per_microbatch() ? layout_.width : static_cast<int>(pieces());
}

/// Returns enough updates to show more than a pipeline that fills and drains.
int RunLayout::reported_steps() const {
  return updates_per_microbatch() ? std::max(4, 2 * layout_.stages) : 4;
}

std::shared_ptr<parallel::Plans> RunLayout::make_plans() const {
  if (own_plan_)
    return located(text("--plan ", parts_.plan_file, ": "),
                   [&] { return std::make_shared<parallel::Plans>(*own_plan_); });
  parallel::Layout layout = layout_;
  if (updates_per_microbatch()) layout.microbatches = 1;
  layout.recompute = parts_.layout.recompute && layout.stages > 1;
  layout.clip = run_.clip > 0;
  layout.tied = tied_ && layout.stages > 1;
  return std::make_shared<parallel::Plans>(parts_.schedule, layout);
}

parallel::Training RunLayout::training(const Model& model) const {
  const auto layers = static_cast<int>(model.size());
  PG_CHECK(!parts_.gives("chunks") || layout_.stages <= layers, "--chunks ", layout_.chunks,
           " on each of ", counted(ranks_ / layout_.width, "rank"), ": a model of ", layers,
           " layers can't be cut into ", layout_.stages, " stages; use fewer --chunks or --ranks");
  parallel::Training training(model, layout_.stages, layout_.cuts);
  training.dtype = run_.type();
  training.seed = static_cast<std::uint64_t>(run_.seed);
  training.learning_rate = run_.rate();
  training.clip = run_.clip;
  training.recompute_layers = parts_.layout.recompute && layout_.stages == 1;
  return training;
}

nlohmann::json RunLayout::flags() const {
  nlohmann::json flags = run_.saved;
  flags.erase("--ranks");
  if (own_plan_) {
    if (parts_.plan_file != "-")
      flags["--plan"] = std::filesystem::absolute(parts_.plan_file).string();
    for (const parallel::SpecField* field : parallel::spec_fields())
      if (!field->of_plans) flags.erase(field->flag_name());
    if (parts_.gives("cuts")) flags["--cuts"] = layout_.cuts;
    return flags;
  }
  // Save the layout that was found, so that a resumed run keeps it unless flags change it.
  parallel::PlanSpec found = parts_;
  found.layout = layout_;
  if (parts_.cyclic()) found.given.insert("setting");
  if (parts_.has_turns()) found.given.insert("gap");
  save_fields(found, flags);
  if (parts_.cyclic()) flags.erase("--microbatches");  // they follow from the stages
  flags["--clip"] = run_.clip;
  return flags;
}

std::string RunLayout::gives_way() const {
  std::string line;
  if (const std::string was = run_.saved.value("--reduction", "auto");
      was != "auto" && was != run_.reduction)
    line += text("; --reduction ", was, " gives way, as this layout can't have it");
  if (run_.clip != run_.saved.value("--clip", run_.clip))
    line += text("; gradients are not clipped, which ", parts_.schedule, " can't do");
  return line;
}

std::string RunLayout::describe() const {
  std::string ranks = ranks_ == 1 ? "one rank" : text(ranks_, " ranks (", run_.transport, ")");
  if (parts_.cyclic())
    ranks += text(", ", counted(layout_.stages, "stage"), ", --setting ", parts_.setting());
  else if (ranks_ > 1 && !own_plan_)
    ranks += ", " + counted(layout_.width, "replica") + " of " + counted(layout_.stages, "stage");
  if (!layout_.lost.empty()) ranks += fmt::format(" without {}", fmt::join(layout_.lost, " and "));
  std::string line = text(own_plan_ ? "a plan of yours" : parts_.schedule, " on ", ranks);
  if (updates_per_microbatch() && layout_.microbatches > 1)
    line += text("; every microbatch is an update, of ", rows_per_step(), ' ', run_.examples);
  if (updates_per_microbatch() && layout_.stages > 1 && run_.clip > 0)
    line +=
        text(". With --clip ", run_.clip, ", each update waits for the gradient's norm over all ",
             "stages, so the stages work almost one after the other; with --clip 0, they work in ",
             "parallel");
  if (!own_plan_ && !parts_.cyclic() && layout_.stages == 1 && first_plan()->plan().kept(0) > 1)
    line +=
        text(". With one stage, ", parts_.schedule, " gains nothing for its late gradients and ",
             "second copy of the weights; --stages N cuts the model into a pipeline");
  if (parts_.behaviour().drifts && layout_.stages > 1 && (run_.clip > 0 || tied_))
    line += text(". Its updates wait for all stages, as ",
                 tied_ ? "embeddings are tied" : "gradients are clipped", "; with ",
                 tied_ ? "--untied" : "", tied_ && run_.clip > 0 ? " and " : "",
                 run_.clip > 0 ? "--clip 0" : "", " none waits");
  if (chose_reduction_) line += text("; --reduction ", run_.reduction);
  if (chose_buckets_)
    line += text("; --stages ", layout_.stages, ", so that sums overlap with backward");
  line += gives_way();
  if (const std::string note = parts_.note(run_.clip > 0); !note.empty()) line += text(". ", note);
  return line;
}

std::string RunLayout::title() const {
  return text(run_.program, ": ", own_plan_ ? "a plan of yours" : parts_.title(), ", ",
              counted(ranks_, "rank"));
}

}  // namespace plangrad::examples
