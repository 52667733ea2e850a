// Layout: names of choices, the numbers of microbatches, and where stages are. PlanSpec: the table
// of fields that all schedules have.
// Not here: the fields of one schedule, which are in its file, and which layouts it takes
// (schedule.cpp). Chapter 06.
#include "parallel/schedules/plan_spec.h"

#include "parallel/schedules/schedule.h"

namespace plangrad::parallel {

const std::map<std::string, Setting>& settings() {
  static const std::map<std::string, Setting> all{{"one-device", Setting::one_device},
                                                  {"data", Setting::data},
                                                  {"pipeline", Setting::pipeline},
                                                  {"model", Setting::model},
                                                  {"zero", Setting::zero}};
  return all;
}

const std::map<std::string, Placement>& placements() {
  static const std::map<std::string, Placement> all{{"loop", Placement::loop}, {"v", Placement::v}};
  return all;
}

std::vector<int> Layout::micros(int replica, int step) const {
  std::vector<int> result(microbatches);
  for (int i = 0; i < microbatches; ++i) result[i] = (step * width + replica) * microbatches + i;
  return result;
}

std::vector<int> Layout::micros(int replica) const {
  std::vector<int> result;
  for (int step = first; step < first + steps; ++step)
    for (int micro : micros(replica, step)) result.push_back(micro);
  return result;
}

// [snippet rank_of]
int Layout::rank_of(int stage) const {
  const int ranks = depth(), round = stage / ranks, place = stage % ranks;
  switch (placement.value_or(Placement::straight)) {
    case Placement::straight: return stage * ranks / stages;
    case Placement::v: return round % 2 == 0 ? place : ranks - 1 - place;
    default: return place;
  }
}
// [end snippet]

std::vector<int> Layout::stages_of(int rank) const {
  if (placement == Placement::both_ways) return {rank, stages - 1 - rank};
  std::vector<int> result;
  for (int stage = 0; stage < stages; ++stage)
    if (rank_of(stage) == rank) result.push_back(stage);
  return result;
}

// ---- fields ----

namespace {

struct ScheduleName : AsText<std::string> {
  static constexpr Kind kind = Kind::choice;
  static constexpr const char* sign = "NAME";
  static std::vector<std::string> choices() { return schedule_names(); }
  static std::string read(const std::string& word, double, double) {
    check_choice(word, choices());
    return word;
  }
};

constexpr SpecField sizes[] = {
    row_as<ScheduleName, &PlanSpec::schedule>(
        "schedule", "order of the work, and which version of the weights it reads"),
    in_layout<&Layout::stages>("stages", "parts that the model is cut into", {.least = 1}),
    in_layout<&Layout::width>("data_parallel", "replicas of the model", {.least = 1}),
    in_layout<&Layout::microbatches>(
        "microbatches",
        "parts of a replica's batch; cyclic schedules always have as many as stages", {.least = 1}),
    in_layout<&Layout::cuts>("cuts",
                             "layers, counted from 0, at which the stages after the first begin; "
                             "layer 0 of a GPT is the embedding, the head is the last, and 1.5 is "
                             "between attention and MLP of its first block (default: stages have "
                             "about equal arithmetic)",
                             {.least = 1, .most = 1e5, .sign = "L,L,..."}),
    in_layout<&Layout::recompute>("recompute",
                                  "save memory: drop activations and compute them again"),
};

constexpr SpecField rest[] = {
    in_layout<&Layout::zero>(
        "zero", "ZeRO level: 1 shards optimizer state, 2 also gradients, 3 also weights",
        {.most = 3}),
    in_layout<&Layout::codec>("codec", "how sums of gradients are encoded between ranks: ",
                              {.usual = "", .more = [] { return codec_usages(); }}),
    in_layout<&Layout::channel>("channel",
                                "how activations and their gradients are encoded between stages: ",
                                {.flag = "--codec-channel",
                                 .usual = "",
                                 .more = [] { return codec_usages(for_activations); }}),
    in_layout<&Layout::steps>("steps",
                              "updates of the plan; in pipedream, times --microbatches "
                              "(default: 1; 3 if one overlaps the next; 8 if cyclic)",
                              {.least = 1, .of_plans = true}),
    row<&PlanSpec::endless>(
        "endless",
        "make the plan endless: between two bars in each row is a body, which any number of "
        "updates repeats",
        {.of_plans = true}),
    in_layout<&Layout::first>("first", "updates done before the plan begins", {.of_plans = true}),
    in_layout<&Layout::clip>("clip", "let each update wait for the norm of the whole gradient",
                             {.of_plans = true}),
    in_layout<&Layout::tied>("tied", "let the first and the last stage share a tensor",
                             {.of_plans = true}),
};

}  // namespace

const SpecField chunks_field =
    in_layout<&Layout::chunks>("chunks", "stages that each rank holds (default: 2)",
                               {.least = 1, .thing = "choice of chunks"});

const SpecField in_flight_field = in_layout<&Layout::in_flight>(
    "in_flight",
    "how many microbatches a rank may hold between forward and backward (default: as many as "
    "stages)",
    {.least = 1, .thing = "choice of microbatches in flight"});

const SpecField placement_field = in_layout<&Layout::placement>(
    "placement",
    "each round of stages begins at rank 0 (loop), or goes back where the one "
    "before ended (v) (default: loop)",
    {.thing = "choice of placement"});

const std::vector<const SpecField*>& spec_fields() {
  static const std::vector<const SpecField*> all = [] {
    std::vector<const SpecField*> found;
    auto add = [&found](const SpecField& field) {
      if (std::ranges::find(found, &field) == found.end()) found.push_back(&field);
    };
    for (const SpecField& field : sizes) add(field);
    for (const Schedule* schedule : schedules())
      for (const SpecField* field : schedule->fields) add(*field);
    for (const SpecField& field : rest) add(field);
    return found;
  }();
  return all;
}

std::string names_with(const SpecField& field) {
  std::vector<std::string> names;
  for (const Schedule* each : schedules())
    if (each->has(field)) names.push_back(each->name);
  const std::string last = names.back();
  names.pop_back();
  return names.empty() ? last : fmt::format("{} and {}", fmt::join(names, ", "), last);
}

void give(PlanSpec& request, const SpecField& field, const std::string& word) {
  field.take(request, word);
  request.given.insert(field.name);
}

const Schedule& PlanSpec::behaviour() const {
  static const Schedule usual;
  return schedule.empty() ? usual : find_schedule(schedule);
}

bool PlanSpec::cyclic() const { return behaviour().cyclic; }
std::string PlanSpec::setting() const { return AsText<Setting>::show(layout.setting); }
bool PlanSpec::has_turns() const { return cyclic() && parallel::has_turns(layout.setting); }
std::string PlanSpec::title() const {
  const std::string lost = fmt::format("without rank {}", fmt::join(layout.lost, " and "));
  const bool is_plain = !cyclic() && layout.lost.empty();
  return is_plain ? schedule : text(schedule, " (", cyclic() ? setting() : lost, ")");
}

void PlanSpec::check_own_fields() const {
  for (const SpecField* field : spec_fields()) {
    if (!field->thing || !gives(field->name) || behaviour().has(*field)) continue;
    throw Error(text(field->flag_name(), ' ', field->show(*this), ": the schedule ", schedule,
                     " has no ", field->thing, "; this flag is for ", names_with(*field)));
  }
  PG_CHECK(!gives("gap") || has_turns(), "--gap ", layout.gap, ": --setting ", setting(),
           " has no turns; data and zero have them");
}

Layout PlanSpec::completed() const {
  Layout found = layout;
  if (cyclic()) found.microbatches = layout.stages;
  if (!gives("steps")) found.steps = cyclic() ? 8 : behaviour().overlaps ? 3 : 1;
  return found;
}

Plan PlanSpec::plan_with(const Layout& layout) const {
  if (!endless) return make_plan(schedule, layout);
  PG_CHECK(!gives("steps"), "--steps ", layout.steps,
           " and --endless: an endless plan has any number of updates; leave out one of the two");
  PG_CHECK(behaviour().has_order, "--endless: the order of the schedule ", schedule,
           " depends on timing, so no part of it repeats; use --steps");
  std::optional<Plan> found = make_endless(schedule, layout);
  PG_CHECK(found, "--endless: the rows of ", title(), " with ", counted(layout.stages, "stage"),
           " do not repeat within 12 updates; use --steps, or fewer --stages");
  return *std::move(found);
}

}  // namespace plangrad::parallel
