// A poster is drawn from above: title, explanation, then an entry below the other.
// Chapter 06.
#include "parallel/drawing/poster.h"

#include <algorithm>
#include <map>

#include "parallel/drawing/figure.h"
#include "parallel/drawing/palette.h"
#include "parallel/drawing/timeline_figure.h"

namespace plangrad::parallel {
namespace {

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

}  // namespace

std::string draw_poster(const Poster& poster) { return PosterFigure(poster).svg(); }

}  // namespace plangrad::parallel
