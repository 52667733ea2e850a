// A held value lies in the first slot that is free while it lives. Shards are thin, above the
// others. Chapters 06 to 09.
#include "parallel/drawing/timeline_figure.h"

#include "parallel/drawing/figure.h"

namespace plangrad::parallel {
namespace {

constexpr double held_height = 13, shard_height = 5;

const char* held_color(const Holding& holding) {
  if (holding.hold <= Hold::copy) return color("weights").light;
  return color(holding.hold <= Hold::input ? "activations" : "gradients").light;
}

/// The texts that a bar can carry, from the longest to the shortest.
std::vector<std::string> held_words(const Holding& holding) {
  const auto [what, stage, number] = holding.name;
  if (what == Value::stash)
    return {fmt::format("s{} {} {}", stage, name_of(holding.hold), number),
            fmt::format("s{} {}", stage, number), std::to_string(number)};
  if (holding.hold > Hold::copy)
    return {fmt::format("s{} sum for v{}", stage, number), fmt::format("s{} sum", stage),
            fmt::format("s{}", stage)};
  const char* part = holding.hold == Hold::shard ? "shard of " : "";
  return {fmt::format("{}s{} weights v{}", part, stage, number),
          fmt::format("{}s{} v{}", part, stage, number), fmt::format("s{}v{}", stage, number)};
}

std::string held_sentence(const Holding& holding) {
  const auto& [what, stage, number] = holding.name;
  if (holding.hold == Hold::sum)
    return fmt::format("the sum of stage {} for version {}, from others too", stage, number);
  return (holding.hold == Hold::shard ? "its shard of " : "") + escape(describe(holding.name));
}

void add_bar(const Holding& holding, const FigureLayout& layout, double y, double high,
             HeldLanes& lanes) {
  const double from = holding.start * layout.pixels_per_second;
  const double wide =
      (std::min(holding.end, layout.seconds) - holding.start) * layout.pixels_per_second;
  const char* fill = held_color(holding);
  const std::vector<std::string> words = held_words(holding);
  lanes.cells += markup(R"(<rect class="held" x="{}" y="{}" width="{}" height="{}" fill="{}">)"
                        "<title>rank {} holds {}\nfrom {}, for {}</title></rect>\n",
                        from, y, wide, high, fill, holding.rank, held_sentence(holding),
                        seconds_text(holding.start), seconds_text(holding.end - holding.start));
  if (holding.hold == Hold::shard) return;
  for (const std::string& line : words) {
    if (wide < text_width(line) + 4) continue;
    lanes.labels += markup(R"(<text x="{}" y="{}" fill="{}">{}</text>)"
                           "\n",
                           from + wide / 2, y + 10, ink_on(fill), line);
    return;
  }
}

}  // namespace

HeldLanes held_lanes(const std::vector<Holding>& held, int rank, const FigureLayout& layout,
                     double top) {
  HeldLanes lanes;
  for (const bool shards : {true, false}) {
    std::vector<double> busy_until;
    const double pitch = shards ? shard_height : held_height;
    for (const Holding& holding : held) {
      if (holding.rank != rank || (holding.hold == Hold::shard) != shards ||
          holding.start >= layout.seconds)
        continue;
      auto slot = std::ranges::find_if(busy_until, [&](double to) { return to <= holding.start; });
      if (slot == busy_until.end()) slot = busy_until.insert(slot, 0.0);
      *slot = holding.end;
      const auto below = static_cast<double>(slot - busy_until.begin());
      add_bar(holding, layout, top + lanes.height + pitch * below, pitch - 1, lanes);
    }
    lanes.height += pitch * static_cast<double>(busy_until.size());
  }
  return lanes;
}

std::string alive_bars(const std::vector<Level>& levels, int most, const FigureLayout& layout,
                       double top, double height) {
  std::string bars;
  for (std::size_t i = 0; i + 1 < levels.size(); ++i) {
    const auto [start, count] = levels[i];
    if (count == 0 || start > layout.seconds) continue;
    const double seconds = levels[i + 1].seconds - start, high = height * count / most;
    bars += markup(
        R"(<rect class="alive" x="{}" y="{}" width="{}" height="{}" fill="{}" )"
        R"(stroke="none" shape-rendering="crispEdges">)"
        "<title>{} activations alive on all ranks, by stage and microbatch\nfrom {}, for {}"
        "</title></rect>\n",
        start * layout.pixels_per_second, top + height - high, seconds * layout.pixels_per_second,
        high, color("activations").light, count, seconds_text(start), seconds_text(seconds));
  }
  return bars;
}

}  // namespace plangrad::parallel
