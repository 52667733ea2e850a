// Chooses among sentences by the facts of the plan; the table of facts says which numbers are
// compared, and how they are written. Flags have the names and values that checkpoints save.
// Chapters 06 and 16.
#include "examples/programs/plan_words.h"

#include <fmt/ranges.h>

#include "examples/pages/plan_facts.h"
#include "examples/pages/player/ideas.h"
#include "examples/programs/program.h"
#include "nn/checkpoint/file.h"
#include "parallel/planner/models.h"
#include "parallel/schedules/schedule.h"

namespace plangrad::examples {

/// Says which rank has the most of something, or that all have as much.
static std::string most_of(const std::vector<int>& by_rank, const char* verb, const char* what,
                           const std::string& after) {
  const auto [least, most] = std::minmax_element(by_rank.begin(), by_rank.end());
  const std::string much = text(verb, ' ', counted(*most, what), after);
  if (by_rank.size() == 1) return "The rank " + much;
  if (*least == *most) return "Every rank " + much;
  return text("Rank ", most - by_rank.begin(), ' ', much, ", the most; others down to ", *least);
}

std::vector<std::string> sentences(const parallel::VerifiedPlan& verified) {
  const parallel::Facts& facts = verified.facts();
  const double share = 1.0 * std::ranges::max(facts.peak_microbatches) / verified.plan().stages;
  const std::string models =
      fmt::format(" ({:.3g} {} worth)", share, share > 1 ? "models'" : "model's");
  std::vector<std::string> all{
      facts.capacity == 0
          ? "No deadlock: the plan ends even if every send waits for its receive."
          : text("No deadlock, if each channel can hold ", counted(facts.capacity, "message"),
                 " that nobody has received yet."),
      "Every gradient is summed once: each microbatch is in the sum of one update, on each stage.",
      facts.drift == 0
          ? "A backward reads the version of the weights that its forward read."
          : text("A backward may read weights that are ", counted(facts.drift, "update"),
                 " newer than its forward's: drift ", facts.drift, '.'),
      facts.staleness == 0
          ? "Each gradient is taken on the newest weights: staleness 0, as without parallelism."
          : text("A gradient may be taken on weights that are ", counted(facts.staleness, "update"),
                 " old when it is applied: staleness ", facts.staleness, '.'),
      most_of(facts.live_versions, "keeps", "version", " of a stage's weights at once") + ".",
      most_of(facts.peak_microbatches, "keeps the activations of", "forward", models) + "."};
  if (verified.plan().sharded > 0) all.push_back(shards_in_words(verified.plan()) + '.');
  return all;
}

std::string schedule_words() {
  std::string words;
  for (const std::string& name : parallel::schedule_names()) {
    const Idea* idea = find_idea(name);
    const std::string what = idea ? text(idea->sentence, " (", idea->paper, ')') : "";
    words += fmt::format(
        "{:<16}{}\n", name,
        fmt::join(parallel::split(in_lines(what, 16), '\n'), "\n" + std::string(16, ' ')));
  }
  return words;
}

namespace {

using nlohmann::json;

/// The number at a place: the largest of a list, the sum of an object's values; none if it is not
/// there.
std::optional<double> number_at(const json& facts, const char* place) {
  const json::json_pointer pointer(place);
  if (!facts.contains(pointer)) return {};
  const json& found = facts.at(pointer);
  if (found.is_number()) return found.get<double>();
  double largest = 0, sum = 0;
  for (const json& each : found) {
    if (!each.is_number()) return {};
    largest = std::max(largest, each.get<double>());
    sum += each.get<double>();
  }
  return found.is_object() ? sum : largest;
}

/// Calls take(fact, value of a, value of b) for each number that both plans have.
template <class Take>
void for_each_number(const NamedFacts& a, const NamedFacts& b, Take&& take) {
  for (const PlanFact& fact : plan_facts()) {
    if (!fact.is_compared) continue;
    const auto of_a = number_at(a.facts, fact.place), of_b = number_at(b.facts, fact.place);
    if (of_a && of_b) take(fact, *of_a, *of_b);
  }
}

std::string difference_text(const PlanFact& fact, double a, double b) {
  if (a == b) return "";
  std::string line = (b > a ? "+" : "-") + number_text(std::abs(b - a), fact.unit);
  const bool is_share = fact.unit == Unit::share;
  if (a > 0 && !is_share) line += fmt::format(", x {:.3g}", b / a);
  return is_share ? line.substr(0, line.size() - 1) + " points" : line;
}

}  // namespace

/// Sets the sizes that no flag gives to those of a plan's file.
static void take_sizes(ScheduleFlags& flags, const parallel::Plan& plan) {
  parallel::Layout& layout = flags.layout;
  const auto take = [&](const char* field, int& size, int of_plan) {
    if (!flags.gives(field)) flags.set(field, size, std::max(of_plan, 1));
  };
  take("stages", layout.stages, plan.stages);
  if (!flags.endless) take("steps", layout.steps, plan.steps);
  if (flags.cyclic()) return;  // replicas and microbatches follow from its stages
  const int ranks = flags.behaviour().ranks(with_defaults(flags.behaviour(), layout));
  take("data_parallel", layout.width, plan.ranks() / std::max(ranks, 1));
  take("microbatches", layout.microbatches, plan.per_step / layout.width);
}

std::array<NamedFacts, 2> sides_of(PlanRequest request, const std::array<std::string, 2>& names) {
  ScheduleFlags& flags = request.schedule;
  std::array<std::optional<parallel::Plan>, 2> files;
  int steps = 0;  // of two schedules: those in which the longer one shows its gain
  for (int i = 0; i < 2; ++i) {
    flags.schedule = std::ranges::count(parallel::schedule_names(), names[i]) > 0 ? names[i] : "";
    PG_CHECK(flags.schedule != "" || names[i] == "-" || std::filesystem::exists(names[i]), names[i],
             ": is neither a schedule nor a file with a plan",
             autograd::did_you_mean(names[i], parallel::schedule_names()));
    if (flags.schedule.empty()) files[i] = read_plan(names[i]);
    steps = std::max(steps, flags.completed().steps);
  }
  std::array<NamedFacts, 2> sides;
  for (int i = 0; i < 2; ++i) {
    flags.schedule = names[i];
    if (!files[i] && files[1 - i]) take_sizes(flags, *files[1 - i]);
    if (!files[0] && !files[1] && !flags.endless) flags.set("steps", flags.layout.steps, steps);
    const auto verified = parallel::verify(files[i] ? *files[i] : request.schedule_plan());
    sides[i] = {files[i] ? printable_line(names[i]) : flags.title(),
                all_facts(verified, parallel::encoded(with_backward(request.costs.costs),
                                                      verified.plan(), "--weight-bytes"))};
  }
  return sides;
}

std::string size_note(const NamedFacts& a, const NamedFacts& b) {
  std::string sizes;
  const bool is_endless = a.facts.contains("period") || b.facts.contains("period");
  for (const PlanFact& fact : plan_facts().first(is_endless ? 3 : 4)) {  // ranks, ..., updates
    const json &of_a = a.facts.at(fact.place + 1), &of_b = b.facts.at(fact.place + 1);
    if (of_a != of_b) sizes += text(sizes.empty() ? "" : ", ", fact.name, ' ', of_a, " and ", of_b);
  }
  return sizes.empty() ? "" : "the plans differ in size: " + sizes;
}

std::string compared(const NamedFacts& a, const NamedFacts& b) {
  const std::size_t width = std::max({a.name.size(), b.name.size(), std::size_t{10}}) + 2;
  std::string differ, same;
  for_each_number(a, b, [&](const PlanFact& fact, double of_a, double of_b) {
    std::string line =
        fmt::format("{:<27}{:<{}}{:<{}}{}", fact.name, number_text(of_a, fact.unit), width,
                    number_text(of_b, fact.unit), width, difference_text(fact, of_a, of_b));
    line.erase(line.find_last_not_of(' ') + 1);
    (of_a == of_b ? same : differ) += line + "\n";
  });
  return fmt::format("{:<27}{:<{}}{:<{}}difference\n{}{}", "", a.name, width, b.name, width, differ,
                     same);
}

json compared_json(const NamedFacts& a, const NamedFacts& b) {
  json difference = json::object();
  for_each_number(a, b, [&](const PlanFact& fact, double of_a, double of_b) {
    difference[fact.name] = of_b - of_a;
  });
  return {{"a", {{"name", a.name}, {"facts", a.facts}}},
          {"b", {{"name", b.name}, {"facts", b.facts}}},
          {"difference", difference}};
}

std::string command_of(const std::string& program, const std::vector<json>& flags) {
  std::string command = program;
  for (const json& each : flags)
    for (const auto& [name, value] : each.items()) {
      if (value == false || (value == 0 && name != "--clip")) continue;  // its default is not 0
      command += ' ' + name;
      if (value != true) command += ' ' + parallel::text_of(value);
    }
  return command;
}

/// The flags that searches write.
static std::set<std::string> written_flags() {
  std::set<std::string> all{"--batch", "--clip", "--dtype", "--prune", "--reduction", "--samo"};
  for (const parallel::SpecField* field : parallel::spec_fields())
    if (!field->of_plans) all.insert(field->flag_name());
  for (const std::string& model : parallel::planned_models())
    for (const auto& [name, value] : parallel::planned_model(model).flags) all.insert(name);
  return all;
}

static std::vector<std::string> words_of(const json& flags) {
  const std::set<std::string> written = written_flags();
  std::vector<std::string> words;
  for (const auto& [name, value] : flags.items()) {
    PG_CHECK(written.contains(name), name, " is no flag that a search writes");
    words.push_back(text(name, '=', parallel::text_of(value)));
  }
  return words;
}

RowWords row_words(const std::filesystem::path& file, int row, const std::string& program) try {
  const json found = nn::read_json(file);
  const json &rows = found.at("best"), &trains = found.at("program");
  PG_CHECK(trains == program, "its plans are for ", trains.get<std::string>());
  PG_CHECK(row <= std::ssize(rows), "there is no row ", row, ", it has ", rows.size());
  return {words_of(found.at("shape")), words_of(rows.at(row - 1).at("flags")),
          nn::whole_number(found.value("vocabulary", json(0)))};
} catch (const json::exception&) {
  throw autograd::Error(
      text("--plan-from ", file.string(), ": this is not what plan search --json ", "prints"));
} catch (const autograd::Error& error) {
  throw autograd::Error(text("--plan-from ", file.string(), ": ", error.what()));
}

}  // namespace plangrad::examples
