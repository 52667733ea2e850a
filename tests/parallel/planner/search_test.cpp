// The search against all candidates, bounds against simulated times, one replica against whole
// plans, and depths against those of a paper. Chapter 16.
#include "parallel/planner/search.h"

#include <random>

#include "nn/checkpoint/file.h"
#include "parallel/simulation/simulate.h"
#include "sparse/pruning.h"
#include "tests/catch.h"
#include "tests/folders.h"
#include "tests/sanitized.h"

using namespace plangrad::parallel;
using namespace plangrad::tests;
using Catch::Matchers::WithinRel;

namespace {

PlannedModel small_gpt(int layers = 6) {
  const GptConfig config{
      .layers = layers, .heads = 2, .width = 32, .context = 16, .vocabulary = 200};
  return planned_gpt("small", config);
}

/// Hosts of `devices`, whose links are slow enough to matter.
Machine small_machine(int devices = 4) {
  return parse_machine(
      "machine small\ndevice memory 1e9 bandwidth 4e8 peak.f32 1e9\n"
      "fitted tile 8 host 1e-4\nhosts " +
      std::to_string(devices) +
      " devices\nlink wire between devices of a host 4e8 B/s 1e-6 s\n"
      "link card of a host 1e8 B/s 1e-5 s\n");
}

Machine known_machine(const std::string& name) {
  return parse_machine(plangrad::nn::read_file(clone_path("examples/machines/" + name + ".txt")));
}

std::vector<Candidate> candidates_of(Evaluation& evaluation, const PlannedModel& model, int devices,
                                     int batch, const Space& space = {}) {
  return candidates(evaluation, static_cast<int>(model.layers.size()), devices, batch, space);
}

/// A space in which all axes have several values.
Space wide_space() {
  return {.codecs = {{}, parse_codec("quantize:4:64")},
          .channels = {{}, parse_codec("quantize:8:64")},
          .pruned = {0, 0.75}};
}

/// Settings of plans that store what is not pruned.
CostSettings pruned_settings() { return {.stored = plangrad::sparse::stored_count}; }

struct Case {
  Machine machine;
  PlannedModel model;
  int devices, batch;
};

}  // namespace

TEST_CASE("search: the best of all candidates on 8 devices, over all schedules", "[search]") {
  const PlannedModel model = small_gpt();
  Evaluation evaluation(model, small_machine(), pruned_settings());
  const std::vector<Candidate> all = candidates_of(evaluation, model, 8, 8, wide_space());
  std::set<std::string> schedules;
  std::set<int> chunks, levels;
  std::vector<Found> found;
  for (const Candidate& each : all) {
    schedules.insert(each.schedule);
    chunks.insert(each.layout.chunks);
    levels.insert(each.layout.zero);
    found.push_back(evaluation.simulated(each));
  }
  // All but cyclic-v1, cyclic-v2, pipedream and recycle.
  CHECK(schedules.size() == schedule_names().size() - 4);
  CHECK(chunks == std::set{1, 2, 4, 8});
  CHECK(levels == std::set{0, 1, 2, 3});

  std::vector<double> bytes;
  for (const Found& each : found) bytes.push_back(each.bytes);
  std::ranges::sort(bytes);
  for (const double memory : {0.0, bytes[bytes.size() / 8], bytes[bytes.size() / 2]}) {
    std::vector<double> seconds;
    for (const Found& each : found)
      if (memory == 0 || each.bytes <= memory) seconds.push_back(each.seconds);
    std::ranges::sort(seconds);
    const SearchResult result = search(evaluation, all, memory, 10);
    REQUIRE(result.best.size() == 10);
    for (int i = 0; i < 10; ++i) CHECK(result.best[i].seconds == seconds[i]);
    CHECK(result.simulated < all.size() / 2);
    double nearest = Evaluation::endless;
    Machine capped = small_machine();
    capped.memory = memory;
    Evaluation under(model, capped, pruned_settings());
    for (const Found& each : found) {
      if (memory == 0 || each.bytes <= memory)
        CHECK(under.cuts(each.candidate) == evaluation.cuts(each.candidate));
      else if (each.seconds <= seconds[9])
        nearest = std::min(nearest, each.bytes);
    }
    CHECK((result.nearest ? result.nearest->bytes : Evaluation::endless) == nearest);
  }
  const SearchResult none = search(evaluation, all, bytes[0] - 1, 10);
  CHECK(none.best.empty());
  CHECK(none.nearest.value().bytes == bytes[0]);
}

TEST_CASE("search: bounds are not above simulated times and bytes", "[search]") {
  const PlannedModel model = small_gpt();
  for (const Machine& machine : {small_machine(4), small_machine(3)}) {
    Evaluation evaluation(model, machine, pruned_settings());
    double closest = 0;
    int number = 0;
    for (const Candidate& each : candidates_of(evaluation, model, 8, 24, wide_space())) {
      const bool is_usual =
          each.layout.codec.is_none() && each.layout.channel.is_none() && each.pruned == 0;
      if (!is_usual && ++number % 11 != 0) continue;  // a sample of the others
      const Found found = evaluation.simulated(each);
      const double bound = evaluation.bound_with_messages(each);
      CAPTURE(each.schedule, each.depth(), each.layout.width, each.layout.microbatches,
              each.layout.recompute, each.layout.zero, each.packing == Packing::stages,
              each.layout.chunks, each.layout.codec.name, each.layout.channel.name, each.pruned);
      CHECK(evaluation.bound(each) <= bound);
      CHECK(bound <= found.seconds * (1 + 1e-9));
      CHECK(evaluation.least_bytes(each) <= found.bytes);
      closest = std::max(closest, bound / found.seconds);
    }
    CHECK(closest > 0.95);
  }
}

// Where updates overlap, seconds are raised to the bound, so that only those before this can show
// that it is too high. Ranks with the most work slow down the others only when these are no longer
// ahead, so that the first updates of a delayed schedule take up to 3% less than the mean of many.
TEST_CASE("search: bounds of random plans are not above what simulations alone say", "[search]") {
  const Case cases[] = {{small_machine(4), small_gpt(), 12, 48},
                        {small_machine(3), small_gpt(9), 18, 36},
                        {known_machine("v100-aws"), planned_model("gpt2-124m"), 64, 128},
                        {known_machine("summit"), planned_model("gpt2-124m"), 24, 96},
                        {known_machine("rtx3090x8"), planned_model("resnet18"), 8, 64}};
  std::mt19937 random(1961);
  std::set<std::tuple<std::string, int, bool, bool>> kinds;  // schedule, ZeRO, replicas, codec
  double closest = 0;                                        // of those that are raised
  for (const auto& [machine, model, devices, batch] : cases) {
    Evaluation evaluation(model, machine, pruned_settings());
    const std::vector<Candidate> all =
        candidates_of(evaluation, model, devices, batch, wide_space());
    for (int i = 0; i < 250; ++i) {
      const Candidate& each = all[random() % all.size()];
      const Layout& layout = each.layout;
      if (each.depth() > 12 || layout.microbatches > 96) continue;
      const double bound = evaluation.bound_with_messages(each);
      const Found found = evaluation.simulated(each, 0);
      CAPTURE(machine.name, each.schedule, each.depth(), layout.width, layout.microbatches,
              layout.recompute, layout.zero, each.packing == Packing::stages, layout.chunks,
              print(layout.codec), print(layout.channel), each.pruned, each.by_seconds);
      const bool is_delayed = each.schedule == "2bw" || each.schedule == "paci";
      CHECK(bound <= found.simulated * (is_delayed ? 1.03 : 1 + 1e-9));
      kinds.insert({each.schedule, layout.zero, layout.width > 1, !layout.codec.is_none()});
      if (is_delayed) closest = std::max(closest, bound / found.simulated);
    }
  }
  CHECK(closest > 0.995);
  CHECK(kinds.size() > 60);
}

TEST_CASE("search: many microbatches take what two shorter plans say", "[search]") {
  const PlannedModel model = small_gpt(4);
  Evaluation evaluation(model, small_machine(), {});
  std::map<int, std::size_t> cases;  // by width
  const auto all = candidates_of(evaluation, model, 4, 160, {.most_examples = 2});
  for (const Candidate& each : fewer(all)) {
    const auto& [depth, width] = std::pair(each.depth(), each.layout.width);
    if (depth > 3 || each.layout.zero > 1) continue;
    const Found quick = evaluation.simulated(each),
                full = evaluation.finish(evaluation.start(each, true));
    CAPTURE(each.schedule, depth, width, each.layout.zero, each.layout.microbatches,
            each.layout.recompute, each.packing == Packing::stages);
    CHECK_THAT(quick.seconds, WithinRel(full.seconds, width > 1 ? 0.1 : 0.01));
    CHECK_THAT(quick.bytes, WithinRel(full.bytes, 0.01));
    ++cases[width];
  }
  CHECK((cases[1] > 40 / share && cases[2] > 40 / share));
}

// With few microbatches the sum of a stage takes longer than the work that hides it, and with many
// less; bytes of activations grow until they are most of a peak.
TEST_CASE("search: more work hides more of a sum, and keeps more", "[search]") {
  Evaluation evaluation(planned_model("2bw-2.2b"), known_machine("v100-aws"),
                        {.dtype = DType::bf16});
  for (const auto& [depth, width, chunks, examples, recompute] :
       fewer(std::vector{std::tuple(4, 4, 4, 4, true), std::tuple(2, 16, 16, 1, false)}, 1)) {
    Layout layout = with_defaults(find_schedule("looped-bfs"), {.chunks = chunks});
    layout.stages = depth * chunks, layout.width = width, layout.microbatches = 256;
    layout.recompute = recompute;
    const Candidate plan{"looped-bfs", layout, examples, Packing::pipelines};
    const Found quick = evaluation.simulated(plan),
                full = evaluation.finish(evaluation.start(plan, true));
    CHECK_THAT(quick.seconds, WithinRel(full.seconds, 0.05));
    CHECK_THAT(quick.bytes, WithinRel(full.bytes, 0.03));
  }
}

TEST_CASE("search: sums and gathers take as long as their messages", "[search]") {
  const Topology links = small_machine(4).topology;
  for (const int width : {2, 4, 8, 16})
    for (const Packing packing : {Packing::stages, Packing::pipelines})
      for (const auto& [name, how] : reductions())
        for (const int sharded : {0, 1}) {
          const ReductionEntry& entry = entry_of(how);
          if (!entry.is_searched || (sharded > 0 && !entry.has_parts())) continue;
          Plan plan;
          plan.sharded = sharded;
          Costs costs{.sums = {how}, .weight_bytes = {4'000'000}};
          costs.machine = std::make_shared<const Machine>(small_machine(4));
          costs.devices = Replicas{packing, width, 4}.devices({1});
          plan.groups.resize(1);
          for (int rank = 0; rank < width; ++rank) plan.groups[0].push_back(rank);
          Instruction sum;
          sum.op = Op::reduce, sum.what = Value::gradient_sum, sum.peer = 0;
          const SumSeconds seconds =
              sum_seconds(links, costs.devices, how, sharded > 0 ? reduce_scatter : all_reduce);
          CAPTURE(width, packing == Packing::stages, name, sharded);
          // Pieces of a host's sum leave it while others still arrive.
          const double most = entry.by_hosts ? 0.15 : 0.1;
          CHECK_THAT(seconds.of(4e6), WithinRel(meeting_seconds(sum, plan, costs), most));
        }
}

// Replicas that send and add up all at once, each rank on its device, against one of them.
TEST_CASE("search: one replica takes as long as all of them", "[search]") {
  Machine cards = small_machine(4);
  cards.topology.links.erase(cards.topology.links.begin());
  std::map<int, int> levels;  // of ZeRO
  for (const auto& [machine, model, devices, batch] :
       {Case{small_machine(4), small_gpt(), 8, 32}, Case{cards, small_gpt(), 8, 32},
        Case{known_machine("rtx3090x8"), planned_model("gpt2-124m"), 8, 32}}) {
    Evaluation evaluation(model, machine, pruned_settings());
    Space space = machine.name == "small" ? wide_space() : Space();
    space.schedules = {"1f1b", "2bw", "gpipe", "dualpipe", "interleaved", "data"};
    for (const Candidate& each : candidates_of(evaluation, model, devices, batch, space)) {
      if (each.layout.width < 2 || each.examples != 2 || each.by_seconds) continue;
      const Found found = evaluation.simulated(each),
                  full = evaluation.finish(evaluation.start(each, true));
      CAPTURE(machine.name, each.schedule, each.depth(), each.layout.width, each.layout.zero,
              each.layout.recompute, each.packing == Packing::stages, name_of(found.reduction),
              each.layout.chunks, print(each.layout.codec), print(each.layout.channel),
              each.pruned);
      CHECK_THAT(found.seconds, WithinRel(full.seconds, 0.1));
      CHECK_THAT(found.bytes, WithinRel(full.bytes, 0.01));
      ++levels[each.layout.zero];
    }
  }
  CHECK((levels[0] > 100 && levels[1] > 100 && levels[2] > 20 && levels[3] > 20));
}

// Tied sums leave hosts on which a replica has both ends.
TEST_CASE("search: the fastest plans are as fast when all replicas run", "[search]") {
  const PlannedModel model = planned_model("gpt2-124m");
  Evaluation evaluation(model, known_machine("summit"), {.dtype = DType::bf16});
  for (const Found& each : search(evaluation, candidates_of(evaluation, model, 12, 36), 0, 3).best)
    CHECK_THAT(each.seconds,
               WithinRel(evaluation.finish(evaluation.start(each.candidate, true)).seconds, 0.1));
}

TEST_CASE("search: the bars of PipeDream-2BW's figure 12, of which two are fitted", "[search]") {
  const double bars[2][5] = {{31, 48, 58, 63, 67}, {22, 34, 39, 42, 44}};
  for (const bool large : {false, true}) {
    PlannedModel model = planned_model("2bw-2.2b");
    if (!large)
      model.layers =
          gpt({.layers = 24, .heads = 16, .width = 2048, .context = 512, .vocabulary = 51200});
    Evaluation evaluation(model, known_machine("v100-aws"), {.dtype = DType::bf16});
    for (int i = 0; i < 5; ++i) {
      Candidate plan{"2bw", with_defaults(find_schedule("2bw"), {}), 1 << i};
      plan.layout.stages = 8, plan.layout.microbatches = 64, plan.layout.recompute = true;
      const double rate = 64 * plan.examples / evaluation.simulated(plan).seconds;
      CAPTURE(large, plan.examples);
      const bool is_fitted = large ? i == 4 : i == 0;
      CHECK_THAT(rate, WithinRel(bars[large ? 1 : 0][i], is_fitted ? 0.01 : 0.1));
    }
  }
}

// PipeDream-2BW has depth 8 for 2.2B, as here, and 16 for 3.8B, which is not reproduced: its system
// keeps 11.4 GB (figure 7) of the plan for which ours keeps 9.6, and here depth 8 still fits.
TEST_CASE("search: the depths of PipeDream-2BW on 64 V100, of which one is the paper's",
          "[search]") {
  for (const char* name : {"2bw-2.2b", "2bw-3.8b"}) {
    const PlannedModel model = planned_model(name);
    Evaluation evaluation(model, known_machine("v100-aws"), {.dtype = DType::bf16});
    std::vector<Candidate> all = candidates_of(evaluation, model, 64, 512, {{"2bw"}});
    std::erase_if(all, [](const Candidate& each) {
      return !each.layout.recompute || each.devices() != 64 || each.layout.zero > 0;
    });
    CHECK(search(evaluation, all, 15.3e9, 1).best.at(0).candidate.depth() == 8);
  }
}
