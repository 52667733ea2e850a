// Charts of what is sent: bytes by rank, bytes over time, and the bits of layers.
// Not here: sending (engine/), and choosing bits (codecs/bit_choice.h).
// Chapters 06, 08 and 10.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "parallel/drawing/chart.h"

namespace paragrad::parallel {
namespace {

using fmt::format;

using Stacks = std::map<int, Parts>;  // bytes by kind; by rank, or by slot of time

double highest_of(const Stacks& bars) {
  double most = 0;
  for (const auto& [key, parts] : bars) most = std::max(most, sum(parts));
  return most;
}

std::vector<NamedColor> colors_of(const Stacks& bars) {
  std::set<std::string> kinds;
  for (const auto& [key, parts] : bars)
    for (const auto& [kind, bytes] : parts) kinds.insert(kind);
  std::vector<NamedColor> colors;
  for (const std::string& kind : kinds) colors.push_back({kind, message_color(kind)});
  return colors;
}

/// Bytes by slot of time; what is sent at the very end has a slot of its own.
Stacks slots_of(const std::vector<Sending>& sent, double slot, double seconds) {
  Stacks slots;
  const int last = static_cast<int>(seconds / slot + 1e-6);
  for (int i = 0; i <= last; ++i) slots[i] = {};
  for (const Sending& sending : sent) {
    const int at = std::min(static_cast<int>(sending.seconds / slot + 1e-6), last);
    if (sending.bytes > 0)
      slots[at][message_kind(sending.instruction)] += static_cast<double>(sending.bytes);
  }
  return slots;
}

}  // namespace

std::string traffic_chart(const std::vector<Traffic>& traffic) {
  constexpr double row = 24, left = 62, longest = 420;
  Stacks ranks;
  for (const Traffic& part : traffic)
    ranks[part.rank][part.kind] += static_cast<double>(part.bytes);
  const double most = highest_of(ranks);
  const Legend above = legend(colors_of(ranks), chart_width - left);
  std::string body = markup("<g transform=\"translate({} 5)\">{}</g>\n", left, above.svg);
  double y = above.height + 10;
  for (const auto& [rank, parts] : ranks) {
    double x = left;
    body += ink(6, y + 12, format("rank {}", rank));
    for (const auto& [kind, bytes] : parts) {
      const double wide = most > 0 ? bytes / most * longest : 0;
      body += markup(R"(<rect class="bar" x="{}" y="{}" width="{}" height="17" fill="{}">)"
                     "<title>rank {}: {} of {}</title></rect>",
                     x, y, wide, message_color(kind), rank, bytes_text(bytes), escape(kind));
      x += wide;
    }
    body += ink(x + 6, y + 12, bytes_text(sum(parts))) + '\n';
    y += row;
  }
  return chart_svg("Bytes sent by rank and kind", 0, y + 6, body);
}

double slot_length(double time_step, double seconds) {
  constexpr double most_slots = 300;
  return time_step * std::max(1.0, std::ceil(seconds / (most_slots * time_step) - 1e-6));
}

std::string flow_chart(const std::vector<Sending>& sent, double slot, double seconds,
                       double highest) {
  const Stacks slots = slots_of(sent, slot, seconds);
  ChartFrame frame(highest > 0 ? highest : highest_of(slots),
                   slot * static_cast<double>(slots.size()), time_unit(seconds));
  frame.legend(colors_of(slots));
  for (const auto& [i, parts] : slots) {
    const double from = slot * i, to = from + slot, wide = frame.x(to) - frame.x(from);
    double base = 0;
    for (const auto& [kind, bytes] : parts) {
      const double top = frame.y(base + bytes);
      frame.add(markup(R"(<rect x="{}" y="{}" width="{}" height="{}" fill="{}"/>)"
                       "\n",
                       frame.x(from), top, wide > 4 ? wide - 1 : wide, frame.y(base) - top,
                       message_color(kind)));
      base += bytes;
    }
    frame.strip(from, to,
                format("from {}: {} begin to be sent{}", seconds_text(from), bytes_text(sum(parts)),
                       lines(parts)));
  }
  return frame.svg("Bytes sent over time");
}

std::string bits_chart(const std::vector<BitChange>& changes) {
  constexpr double left = 190, row = 15;
  std::set<std::string> layers;
  for (const BitChange& change : changes)
    for (const auto& [layer, bits] : change.bits) layers.insert(layer);
  const double column = std::min(40.0, (chart_width - left) / static_cast<double>(changes.size()));
  std::string body;
  double y = 8;
  for (const std::string& layer : layers) {
    body += ink(6, y + 11, layer);
    double x = left;
    for (const BitChange& change : changes) {
      const auto found = change.bits.find(layer);
      const int bits = found == change.bits.end() ? 0 : found->second;
      body += markup(R"(<g class="bar"><rect x="{}" y="{}" width="{}" height="{}" fill="#2563a8" )"
                     R"(fill-opacity="{}"/><title>{}: {} bits from step {} on</title>)",
                     x, y, column - 1, row - 1, 0.1 + 0.9 * bits / 8, escape(layer), bits,
                     change.step + 1);
      if (column >= 12)
        body +=
            markup(R"(<text {} x="{}" y="{}" text-anchor="middle">{}</text>)",
                   bits > 4 ? R"(fill="#fff")" : R"(class="ink")", x + column / 2, y + 11, bits);
      body += "</g>\n";
      x += column;
    }
    y += row;
  }
  body += ink(left, y + 16,
              format("chosen after steps {} to {}", changes.front().step, changes.back().step));
  return chart_svg("Bits of each layer over time", 0, y + 24, body);
}

}  // namespace paragrad::parallel
