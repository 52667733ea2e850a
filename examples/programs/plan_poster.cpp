// A poster is drawn from above: title, explanation, then an entry below the other. Every exhibit of
// schedule_poster is the same work: each of four ranks computes for 48 s if it is never idle.
// Chapters 06 and 07.
#include "examples/programs/plan_poster.h"

#include <fmt/format.h>

#include "examples/programs/program.h"
#include "parallel/drawing/figure.h"
#include "parallel/drawing/timeline_figure.h"
#include "parallel/schedules/schedule.h"
#include "parallel/simulation/simulate.h"
#include "parallel/verifier/verify.h"

namespace plangrad::examples {
namespace {

using namespace parallel;

constexpr double poster_width = 800, poster_margin = 14, words_width = 190, poster_line = 14;
constexpr double cell_gap = 2, area_height = 18, entry_gap = 14;
constexpr int number_size = 9;

class PosterFigure {
 public:
  explicit PosterFigure(const Poster& poster) : poster_(poster) {
    for (const PosterEntry& entry : poster.entries) {
      check_drawable(entry.timeline);
      seconds_ = std::max(seconds_, entry.timeline.makespan());
      most_alive_ = std::max(most_alive_, peak(entry));
    }
    per_second_ = (poster_width - left - poster_margin) / seconds_;
  }

  std::string svg() {
    add_head();
    for (const PosterEntry& entry : poster_.entries) add(entry);
    const double height = y_ + poster_margin - entry_gap;
    return markup(
        R"(<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{}" )"
        R"(width="{}" height="{}" viewBox="0 0 {} {}" font-size="11" )"
        R"(font-family="system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif">)"
        "\n{}{}{}{}{}{}</svg>\n",
        escape(poster_.title), poster_width, height, poster_width, height, figure_style(),
        idle_pattern(), paper(0, 0, poster_width, height), group("words", "", words_),
        group("cells", "", cells_),
        group("numbers", markup(R"( text-anchor="middle" font-size="{}")", double(number_size)),
              numbers()));
  }

 private:
  static constexpr double left = poster_margin + words_width;  // of the timelines

  static double peak(const PosterEntry& entry) {
    int most = 0;
    for (const Level& level : activations_alive(entry.timeline)) most = std::max(most, level.count);
    return 1.0 * most / entry.stages;
  }
  /// Digits of a row in one colour, each at its place.
  struct Numbers {
    std::string x, digits;
  };
  std::string numbers() const {
    std::string all;
    for (const auto& [place, row] : numbers_)
      all += markup("<text y=\"{}\" fill=\"{}\" x=\"{}\">{}</text>\n", place.first, place.second,
                    row.x, row.digits);
    return all;
  }
  double x(double seconds) const { return left + seconds * per_second_; }

  void say(double at, double y, const std::string& words, const std::string& attributes = "") {
    words_ += ink(at, y, words, attributes) + '\n';
  }

  void add_head() {
    y_ = poster_margin + 16;
    say(poster_margin, y_, poster_.title, R"( font-size="20" font-weight="650")");
    for (const std::string& line : wrapped(poster_.explanation, poster_width - 2 * poster_margin)) {
      y_ += poster_line + (y_ < 40 ? 5 : 0);
      say(poster_margin, y_, line);
    }
    y_ += 18;
  }

  void add(const PosterEntry& entry) {
    const double top = y_, pitch = poster_.cell + cell_gap;
    stages_of_ranks_ = computed_stages(entry.timeline);
    for (int rank = 0; rank < entry.timeline.ranks; ++rank)
      for (const char* fill : {"#edf0f4", "url(#idle)"})
        cells_ += markup(R"(<rect{} x="{}" y="{}" width="{}" height="{}" fill="{}"/>)",
                         fill[0] == '#' ? R"( class="lane")" : "", left, top + rank * pitch,
                         x(entry.timeline.makespan()) - left, poster_.cell, fill);
    for (const Record& record : entry.timeline.records)
      if (record.lane == Lane::compute && !drops(record.instruction))
        add(entry, record, top + record.rank * pitch);
    for (const auto& [fill, path] : boxes_)
      cells_ += fmt::format("<path fill=\"{}\" d=\"{}\"/>\n", fill, path);
    cells_ += markup("<path d=\"{}\" stroke=\"#fff\" stroke-width=\"1.5\"/>\n", marks_);
    cells_ += markup("<path d=\"{}\" {} stroke-width=\"2\"/>\n", updates_, in_color("update"));
    boxes_.clear();
    marks_.clear();
    updates_.clear();
    y_ += entry.timeline.ranks * pitch + 1;
    add_area(entry);
    y_ = std::max(y_ + area(), add_words(entry, top)) + entry_gap;
  }

  double area() const { return poster_.cell < 10 ? 0.7 * area_height : area_height; }

  void add(const PosterEntry& entry, const Record& record, double top) {
    const Instruction& what = record.instruction;
    const double from = x(record.start), wide = x(record.end) - from;
    if (makes_version(what)) {
      updates_ += markup("M{} {}v{}", from, top, poster_.cell);
      return;
    }
    const CellColor color = cell_color(what);
    boxes_[color.fill] += markup("M{} {}h{}v{}h-{}z", from, top, std::max(wide - 0.8, wide / 2),
                                 poster_.cell, std::max(wide - 0.8, wide / 2));
    const std::vector<int>& stages = stages_of_ranks_.at(record.rank);
    if (stages.size() == 2)
      marks_ += markup("M{} {}h{}", from + (what.stage == stages[1] ? wide / 2 : 0),
                       top + poster_.cell - 1.5, std::max(wide - 0.8, wide / 2) / 2);
    const std::string number = std::to_string(what.micro % entry.per_step);
    if (poster_.cell < 12 || number.size() > 1 || wide < label_width(number_size, 1)) return;
    Numbers& numbers = numbers_[{top + (stages.size() == 2 ? 9 : 10), color.text}];
    numbers.x += markup("{} ", from + wide / 2);
    numbers.digits += number;
  }

  /// Adds the activations alive on all ranks, over time.
  void add_area(const PosterEntry& entry) {
    std::string path = markup("M{} {}", left, y_ + area());
    for (const Level& level : activations_alive(entry.timeline))
      path += markup("H{}V{}", x(level.seconds),
                     y_ + area() - area() * level.count / entry.stages / most_alive_);
    cells_ += markup(R"(<path d="{}z" {}/>)"
                     "\n",
                     path, R"(class="area" color="#68737f" fill="currentColor")");
  }

  /// Adds name, idea and numbers beside a timeline; returns where they end.
  double add_words(const PosterEntry& entry, double top) {
    double y = top + 11;
    say(poster_margin, y, entry.name, R"( font-size="14" font-weight="650")");
    for (const std::string& line : wrapped(entry.idea, words_width - 6))
      say(poster_margin, y += poster_line, line);
    y += 1;
    for (std::size_t i = 0; i < entry.facts.size();) {
      std::string line;
      for (std::size_t letters = 0; i < entry.facts.size(); ++i) {
        const auto& [number, counted] = entry.facts[i];
        letters += number.size() + counted.size() + 3;
        if (!line.empty() && letters > 33) break;
        line += fmt::format(R"({}<tspan font-weight="700">{}</tspan> {})", line.empty() ? "" : ", ",
                            escape(number), escape(counted));
      }
      words_ += markup(R"(<text class="ink" x="{}" y="{}">{}</text>)"
                       "\n",
                       poster_margin, y += poster_line, line);
    }
    return y;
  }

  const Poster& poster_;
  double seconds_ = 0, per_second_ = 0, most_alive_ = 0, y_ = 0;
  std::vector<std::vector<int>> stages_of_ranks_;  // of the entry that is drawn
  std::string words_, cells_;
  std::string marks_, updates_;                                // of the entry
  std::map<std::string, std::string> boxes_;                   // by colour, of the entry
  std::map<std::pair<double, std::string>, Numbers> numbers_;  // by baseline and colour
};

/// A schedule on a poster, in the order of the poster, with a layout of 16 microbatches in all.
struct Exhibit {
  const char *schedule, *name, *idea;
  Layout layout;
  bool among_six = false;
};

const std::vector<Exhibit>& exhibits() {
  const Layout flushing{.stages = 4, .microbatches = 8, .steps = 2},
      chunked{.stages = 8, .microbatches = 8, .steps = 2},
      delayed{.stages = 4, .microbatches = 4, .steps = 4},
      each{.stages = 4, .microbatches = 1, .steps = 16},
      replicas{.stages = 4, .width = 4, .microbatches = 1, .steps = 4};
  Layout sharded = replicas;
  sharded.zero = 3;
  static const std::vector<Exhibit> all = {
      {"gpipe", "GPipe", "All forwards, then all backwards", flushing, true},
      {"1f1b", "1F1B", "The same bubble, a third of the memory", flushing, true},
      {"zb-h1", "Zero bubble H1", "Backward in two parts: one of them fills gaps", flushing, true},
      {"2bw", "PipeDream-2BW", "Never drains; two versions of the weights", delayed, true},
      {"cyclic-v2", "Cyclic data parallel", "Ranks in turn: memory and messages stay even", delayed,
       true},
      {"data", "ZeRO 3", "A quarter of the state on each rank; weights come and go", sharded, true},
      {"message-driven", "Message-driven", "A rank takes what has come first", flushing},
      {"interleaved", "Interleaved 1F1B", "Two stages a rank: half the bubble", chunked},
      {"looped-bfs", "Looped, breadth first", "Two stages a rank, one after the other", chunked},
      {"zb-h2", "Zero bubble H2", "More forwards ahead: no bubble inside", flushing},
      {"zb-v", "Zero bubble V", "Two stages a rank, there and back", chunked},
      {"dualpipe", "DualPipe", "Pipelines from both ends; weights are held twice", flushing},
      {"dualpipe-v", "DualPipe V", "Half of DualPipe: weights are held once", chunked},
      {"pipedream", "PipeDream", "An update for each microbatch, a version for each", each},
      {"paci", "PACI", "One version; a backward may read newer weights than its forward", delayed},
      {"cyclic-v1", "Cyclic v1", "Cyclic, with gradients one update old", delayed},
      {"data", "Data parallel", "All ranks peak together", replicas}};
  return all;
}

PosterEntry entry_of(const Exhibit& exhibit, bool all) {
  const VerifiedPlan plan = verify(make_plan(exhibit.schedule, exhibit.layout));
  Costs costs;
  costs.forward = {4.0 / plan.plan().stages};
  costs.backward = {8.0 / plan.plan().stages};
  PosterEntry entry{exhibit.name,          exhibit.idea,         {},
                    simulate(plan, costs), plan.plan().per_step, plan.plan().stages};
  int most = 0;
  for (const Level& level : activations_alive(entry.timeline)) most = std::max(most, level.count);
  const int versions = *std::ranges::max_element(plan.facts().live_versions);
  entry.facts = {{fmt::format("{:.0f}%", 100 * entry.timeline.bubble()), "idle"},
                 {fmt::format("{:.3g}", 1.0 * most / plan.plan().stages), "kept"},
                 {std::to_string(versions), versions == 1 ? "version" : "versions"}};
  if (const int drift = plan.facts().drift; drift > 0)
    entry.facts.push_back({std::to_string(drift), "drift"});
  if (all) entry.facts.push_back({std::to_string(plan.facts().staleness), "stale"});
  return entry;
}

/// Draws schedules that train on 16 microbatches with four ranks, at equal costs: six schedules
/// with numbers in their cells, or all of the register.
std::string schedule_poster(bool all) {
  Poster poster;
  poster.title = all ? "Schedules side by side" : "Six ways to train on four ranks";
  poster.explanation =
      "Each picture is a plan: a text of four rows, which plangrad verifies, simulates and trains "
      "with. All compute 16 microbatches; a backward takes as long as two forwards, messages take "
      "no time. Blue: forward. Orange, yellow, pink: backward and its parts. Lighter: newer "
      "weights. Vertical line: update. Hatched: idle. Grey area: activations alive on all ranks "
      "together, whose peak is kept, in microbatches of the whole model.";
  if (all)
    poster.explanation +=
        " White bar: first or second stage of a rank. Stale: updates between the weights that a "
        "gradient is taken at and those that it "
        "changes.";
  poster.cell = all ? 8 : 13;
  const std::vector<std::string> known = schedule_names();
  for (const Exhibit& exhibit : exhibits())
    if ((all || exhibit.among_six) && std::ranges::count(known, exhibit.schedule) > 0)
      poster.entries.push_back(entry_of(exhibit, all));
  return draw_poster(poster);
}

}  // namespace

std::string draw_poster(const Poster& poster) { return PosterFigure(poster).svg(); }

Command poster_command() {
  const auto all = std::make_shared<bool>(false);
  return {
      "poster",
      "Draws schedules side by side, on one scale, as a figure (.svg).",
      {{"Draw all schedules", "plan poster --all --out poster.svg"}},
      [=](Flags flags, PlanRequest& request) {
        flags.yes("--all", *all, "draw all schedules instead of six");
        flags.words("--out", request.out, "FILE", "the figure's file").required().ends_in({".svg"});
      },
      [=](const PlanRequest& request, const Flags&) {
        write_result(request.out, schedule_poster(*all), "wrote " + request.out);
      }};
}

}  // namespace plangrad::examples
