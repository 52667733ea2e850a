// Adds flags for fields, and finds what follows from those that were given: which schedule, how
// many stages and replicas fit the ranks. Chapter 06.
#include "examples/programs/plan_flags.h"

#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <ranges>

#include "examples/programs/plan_machine.h"
#include "examples/programs/program.h"
#include "nn/checkpoint/file.h"

namespace plangrad::examples {

namespace {

/// The default that --help shows: none if it follows from other flags, which `what` says.
template <class Object>
std::string default_of(const parallel::Field<Object>& field) {
  if (field.usual) return field.usual;
  const std::string what = field.what, all = field.show(Object());
  return what.find("(default: ") == what.npos ? all.substr(0, all.find(',')) : "";
}

/// Adds a flag that sets the field by take(field, word). If it is given twice, the last one counts.
///   who: what has this field, if not all have
template <class Object, class Take>
void add_field(Flags& flags, const parallel::Field<Object>& field, Object& object,
               const std::string& who, const Take& take) {
  // Users name a machine, or its file; the field is its text.
  const bool is_machine = field.name == std::string_view("machine");
  auto meant = [is_machine](const std::string& word) {
    return is_machine ? machine_text(word) : word;
  };
  std::string what = who + field.what + (field.more ? field.more() : "");
  if (is_machine) what += ": " + machine_words();
  if (field.choices) what += fmt::format("; one of {}", fmt::join(field.choices(), ", "));
  if (field.yes) return flags.yes(field.flag_name().c_str(), *field.yes(object), what);
  flags
      .taken(field.flag_name(), field.sign, what,
             [&field, take, meant](const std::string& word) { take(field, meant(word)); })
      .check([&field, meant](const std::string& word) {
        Object scratch;
        field.take(scratch, meant(word));
      })
      .show_default(default_of(field));
}

}  // namespace

void ScheduleFlags::add_flags(Flags& flags, bool of_plans, const std::set<std::string>& names) {
  if (names.empty()) flags.group("Schedule");
  for (const parallel::SpecField* field : parallel::spec_fields())
    if ((of_plans || !field->of_plans) && (names.empty() || names.contains(field->name)))
      add_field<parallel::PlanSpec>(
          flags, *field, *this, field->thing ? parallel::names_with(*field) + ": " : "",
          [this](const auto& each, const std::string& word) { give(*this, each, word); });
}

bool ScheduleFlags::any_given() const {
  // Cuts are of the model. Checkpoints of runs of an own plan may have --zero 0, its default.
  auto is_given = [this](const parallel::SpecField* field) {
    const std::string name = field->name;
    return !field->of_plans && name != "cuts" &&
           (field->is_set(*this) || (gives(name) && name != "zero"));
  };
  return std::ranges::any_of(parallel::spec_fields(), is_given);
}

parallel::Layout ScheduleFlags::found() const {
  check_own_fields();
  if (cyclic()) check_cyclic();
  return completed();
}

std::string ScheduleFlags::note(bool clip) const {
  if (!behaviour().note) return "";
  parallel::Layout layout = parallel::with_defaults(behaviour(), found());
  layout.clip = clip;
  return behaviour().note(layout);
}

double ScheduleFlags::smallest_share(std::int64_t batch, int ranks) const {
  double parts = 1.0 * layout.microbatches * layout.width;
  if (cyclic()) parts = std::max(1, gives("stages") ? layout.stages : ranks);
  return static_cast<double>(batch) / parts;
}

/// Checks that a cyclic schedule has stages, and as many microbatches, which are its replicas.
void ScheduleFlags::check_cyclic() const {
  PG_CHECK(gives("stages"), "--schedule ", schedule, " needs --stages N",
           setting() == "one-device" ? ": one rank runs all of them" : "");
  PG_CHECK(!gives("microbatches") || layout.microbatches == layout.stages, "--microbatches ",
           layout.microbatches, ": the schedule ", schedule,
           " has as many microbatches as stages, ", layout.stages, "; leave this flag out");
}

/// Returns the number of stages with which the schedule uses all ranks; 0: any number does, or the
/// ranks become replicas.
int ScheduleFlags::stages_on(int ranks) const {
  if (!cyclic()) {
    const parallel::Layout asked = with_defaults(behaviour(), found());
    const bool is_usual = asked.placement == parallel::Placement::straight;
    return is_usual ? 0 : ranks / asked.width * asked.chunks / asked.copies();
  }
  const parallel::Setting found = layout.setting;
  if (found == parallel::Setting::one_device) return 0;
  if (found != parallel::Setting::model) return ranks;
  // N stages take N (N + 1) / 2 ranks.
  auto needed = [](std::int64_t n) { return n * (n + 1) / 2; };
  int n = static_cast<int>((std::sqrt(8.0 * ranks + 1) - 1) / 2);
  PG_CHECK(needed(n) == ranks, ranks, " ranks: --setting model takes N (N + 1) / 2 of them for N ",
           "stages; ", needed(n), " make ", n, ", ", needed(n + 1), " make ", n + 1);
  return n;
}

void ScheduleFlags::fit(int ranks) {
  if (schedule.empty()) schedule = layout.stages > 1 ? "1f1b" : "data";
  if (!gives("stages") && ranks > 0)
    if (const int stages = stages_on(ranks)) set("stages", layout.stages, stages);
  auto needed = [this] {
    parallel::Layout plain = with_defaults(behaviour(), found());
    plain.zero = 0;  // ZeRO shards what ranks hold, and does not change their number
    parallel::check_layout(behaviour(), plain);
    return behaviour().ranks(plain);
  };
  if (!cyclic() && !gives("data_parallel")) {
    int depth = needed();
    if (ranks > 0 && ranks % depth == 0) set("data_parallel", layout.width, ranks / depth);
  }
  int wanted = needed();
  if (ranks == 0 || ranks == wanted) return;
  std::string placed =
      cyclic() ? text("--setting ", setting()) : text("--data-parallel ", layout.width);
  throw autograd::Error(text(counted(ranks, "rank"), ": the schedule ", schedule, " with --stages ",
                             layout.stages, " and ", placed, " needs ", wanted));
}

namespace {

/// Standard input, with an end: it may be /dev/zero or that of `yes`.
class BoundedInput : public std::streambuf {
  int underflow() override {
    std::cin.read(part_.data(), std::ssize(part_));
    const std::string_view got(part_.data(), static_cast<std::size_t>(std::cin.gcount()));
    PG_CHECK(got.find('\0') == got.npos && (seen_ += got.size()) <= nn::most::plan,
             "this is no plan: it has a zero byte, or more than ", nn::most::plan, " bytes");
    setg(part_.data(), part_.data(), part_.data() + got.size());
    return got.empty() ? traits_type::eof() : traits_type::to_int_type(got[0]);
  }

  std::string part_ = std::string(1 << 16, '\0');
  std::size_t seen_ = 0;
};

/// Reads standard input up to its first line that is no plan's, or to its end.
parallel::Plan plan_of_input() {
  BoundedInput bounded;
  std::istream in(&bounded);
  in.exceptions(std::ios::badbit);  // lets errors of the buffer out
  return parallel::parse(in);
}

}  // namespace

parallel::Plan read_plan(const std::string& file) {
  bool from_input = file == "-";
  const std::string content = from_input ? "" : nn::read_file(file, nn::most::plan);
  return located((from_input ? "standard input" : file) + ": ", [&] {
    PG_CHECK(content.find('\0') == content.npos, "this is no plan: it has a zero byte");
    return from_input ? plan_of_input() : parallel::parse(content);
  });
}

void CostFlags::add_flags(Flags& flags) {
  flags.group("Costs (one value, or a list of one per stage; --slowness: per rank)");
  for (const parallel::Field<parallel::Costs>* field : parallel::cost_fields())
    add_field(flags, *field, costs, "",
              [this](const auto& each, const std::string& word) { each.take(costs, word); });
  for (const char* instead : {"--bandwidth", "--latency"}) flags.excludes("--machine", instead);
  flags.needs("--devices", "--machine");
}

/// Whether both parts of a split backward take as long as a whole one, on each stage.
static bool parts_add_up(const parallel::Costs& costs, const parallel::Plan& plan) {
  check(costs, plan);
  return std::ranges::all_of(std::views::iota(0, plan.stages), [&](int stage) {
    const double whole = value_at(stage, costs.backward);
    double parts = 0;
    for (const auto* part : {&costs.input_part, &costs.weight_part})
      parts += part->empty() ? whole / 2 : value_at(stage, *part);
    return std::abs(parts - whole) <= 1e-9 * whole;
  });
}

parallel::Costs CostFlags::of(const parallel::Plan& plan) const {
  const auto has = [&](parallel::Value part) {
    return std::ranges::any_of(plan.rows | std::views::join,
                               [&](const auto& x) { return goes_back(x) && x.what == part; });
  };
  const bool splits = has(parallel::Value::input_part);
  PG_CHECK(splits || (costs.input_part.empty() && costs.weight_part.empty()),
           "--input-part and --weight-part are times of split backwards, which this plan does not "
           "have; give --backward, or a schedule like zb-h1");
  for (const int device : costs.devices)
    PG_CHECK(std::ranges::count(costs.devices, device) == 1, "--devices: ranks share device ",
             device, "; each rank computes on one of its own");
  const parallel::Costs found = with_backward(costs);
  if (splits && has(parallel::Value::none) && !parts_add_up(found, plan))
    tell("note: --backward differs from --input-part plus --weight-part, and this plan has both");
  return parallel::encoded(found, plan, "--weight-bytes");
}

void check_smaller(const char* flag, const parallel::CodecSpec& spec, autograd::DType dtype) {
  if (spec.kind().keeps_bf16 || !is_local(spec)) return;
  constexpr std::int64_t count = 1 << 20;
  const std::int64_t plain = count * size_of(dtype);
  const std::int64_t bytes = encoded_bytes(spec, count, size_of(dtype));
  PG_CHECK(bytes < plain, flag, ' ', print(spec), " makes messages larger: ", count, " values are ",
           plain, " bytes as they are, and ", bytes,
           " encoded; use fewer bits, larger buckets or a smaller fraction");
}

// ---- saved flags ----

/// Whether a run saves the field: a size, or what was given of all else.
static bool is_saved(const parallel::PlanSpec& request, const parallel::SpecField& field) {
  const bool optional =
      field.thing || field.kind == parallel::Kind::words || field.kind == parallel::Kind::numbers;
  return !field.of_plans && (!optional || request.gives(field.name));
}

void save_fields(const parallel::PlanSpec& request, nlohmann::json& flags) {
  for (const parallel::SpecField* field : parallel::spec_fields())
    if (is_saved(request, *field))
      flags[field->flag_name()] = parallel::json_of(field->kind, field->show(request));
    else if (!field->of_plans)
      flags.erase(field->flag_name());
}

parallel::PlanSpec saved_spec(const nlohmann::json& flags) {
  parallel::PlanSpec request;
  for (const parallel::SpecField* field : parallel::spec_fields()) {
    const auto saved = flags.find(field->flag_name());
    if (field->of_plans || saved == flags.end() || *saved == nlohmann::json("")) continue;
    located(field->flag_name() + ": ",
            [&] { parallel::give(request, *field, parallel::text_of(*saved)); });
  }
  return request;
}

std::vector<std::string> words_of(const parallel::PlanSpec& request) {
  std::vector<std::string> words;
  for (const parallel::SpecField* field : parallel::spec_fields())
    if (request.gives(field->name) && !field->of_plans)
      words.push_back(text(field->flag_name(), '=', field->show(request)));
  return words;
}

}  // namespace plangrad::examples
