// The flags of pruning: their names, which of them can be combined, and defaults that follow from
// other flags. Chapter 11.
#include "examples/programs/prune_flags.h"

#include "examples/programs/program.h"

namespace plangrad::examples {

const std::vector<std::string>& PruneFlags::fixed() {
  static const std::vector<std::string> names{"--prune",       "--prune-method", "--prune-all",
                                              "--prune-after", "--prune-every",  "--prune-until"};
  return names;
}

void PruneFlags::add_flags(Flags& flags) {
  flags.group("Pruning");
  flags.number("--prune", fraction, 0, 0.9999,
               "fraction of each matrix's elements to prune during training; 0: none");
  flags.choice("--prune-method", method, sparse::prune_methods,
               "magnitude, global (over all matrices) and random prune once; gradual prunes in "
               "many small steps; lottery in rounds that rewind to early weights; early-bird once "
               "the masks have settled");
  flags.whole("--prune-after", after, 0, "updates before pruning (default: 1/10 of --steps)");
  flags.whole(
      "--prune-every", every, 1,
      "gradual, lottery, early-bird: updates from one mask to the next (default: 1/50 of the "
      "updates after --prune-after; for lottery, an equal share per round)");
  flags.whole(
      "--prune-until", until, 1,
      "gradual: update that reaches --prune (default: halfway from --prune-after to the end)");
  flags.yes("--prune-all", all, "also prune embeddings, biases and norms");
  flags.yes("--samo", samo, "store weights, gradients and optimizer state without pruned elements");
  flags.yes("--sparse-compute", sparse,
            "with --samo: also compute linear layers without pruned elements, as sparse products");
}

void PruneFlags::check(const parallel::CodecSpec& codec, const std::string& plan_file,
                       int steps) const {
  if (!given()) {
    PG_CHECK(
        !samo && !sparse && !all && after < 0 && every == 0 && until == 0 && method == "magnitude",
        "nothing is pruned without --prune FRACTION; add it, or leave out ",
        samo ? "--samo" : "the other pruning flags");
    return;
  }
  PG_CHECK(samo || !sparse, "--sparse-compute computes with the elements that --samo stores; add ",
           "--samo, or leave it out");
  PG_CHECK(plan_file.empty(), "--prune: a plan from a file leaves no room for pruning between its ",
           "updates; use --schedule, or leave out --prune");
  const bool coded = !codec.is_none();
  PG_CHECK(samo || !coded, "--codec ", print(codec), ": pruned gradients that are stored with ",
           "their zeros would not stay zero when encoded; add --samo, or leave out --codec");
  PG_CHECK(is_local(codec), "--codec ", print(codec), " factors matrices, but --samo stores only ",
           "lists of kept elements; use another codec, or leave out --samo");
  PG_CHECK(!once() || every == 0, "--prune-every ", every, ": --prune-method ", method,
           " prunes once; leave it out, or use gradual, lottery or early-bird");
  PG_CHECK(method == "gradual" || until == 0, "--prune-until ", until, ": --prune-method ", method,
           " has no ramp, only gradual has one; leave it out");
  const sparse::PruneSettings found = settings(steps, 0);
  PG_CHECK(method != "gradual" || (found.after < found.until && found.until <= steps),
           "--prune-until ", found.until, " must be above --prune-after ", found.after, " and at ",
           "most the run's ", steps, " --steps");
  PG_CHECK(found.after < steps, "--prune-after ", found.after, ": the run has ", steps, " --steps");
  const int masks = method == "lottery"      ? sparse::lottery_rounds(fraction)
                    : method == "early-bird" ? sparse::EarlyBird::window
                                             : 0;
  PG_CHECK(found.after + masks * found.every < steps, "--prune-method ", method, ": ",
           counted(masks, "time"), " --prune-every ", found.every, " after update ", found.after,
           " is more than the run's ", steps, " --steps; give it more, or a smaller --prune-every");
}

void PruneFlags::check_begins(int done, int steps) const {
  const int begins = settings(steps, 0).after;
  PG_CHECK(begins > done, "--prune-after ", begins, ": the run has done ", counted(done, "update"),
           " already, so pruning can only begin later; use --prune-after ", done + 1, " or more");
}

sparse::PruneSettings PruneFlags::settings(int steps, std::uint64_t seed) const {
  sparse::PruneSettings result = *this;
  result.seed = seed;
  result.after = after < 0 ? steps / 10 : after;
  const int left = std::max(1, steps - result.after);
  const int parts = method == "lottery" ? sparse::lottery_rounds(fraction) + 1 : 50;
  result.every = every > 0 ? every : std::max(1, left / parts);
  result.until = until > 0 ? until : result.after + std::max(1, left / 2);
  return result;
}

}  // namespace plangrad::examples
