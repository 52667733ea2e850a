// Bytes sent over time: a bar a time slot, a part a kind, over all ranks.
// Not here: how many bytes each rank sent in all (chart_traffic.cpp).
// Chapter 08.
#include "parallel/drawing/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "parallel/drawing/chart_frame.h"
#include "parallel/drawing/figure.h"

namespace paragrad::parallel {
namespace {

using fmt::format;

/// Bytes by kind.
struct Slot {
  std::map<std::string, std::int64_t> bytes;
  double sum() const {
    std::int64_t sum = 0;
    for (const auto& [kind, part] : bytes) sum += part;
    return static_cast<double>(sum);
  }
};

/// What is sent at the very end has a slot of its own.
std::vector<Slot> fill(const std::vector<Sending>& sent, double slot, double seconds) {
  std::vector<Slot> slots(static_cast<std::size_t>(seconds / slot + 1e-6) + 1);
  for (const Sending& sending : sent) {
    auto at = std::min(static_cast<std::size_t>(sending.seconds / slot + 1e-6), slots.size() - 1);
    if (sending.bytes > 0) slots[at].bytes[message_kind(sending.instruction)] += sending.bytes;
  }
  return slots;
}

std::vector<NamedColor> colors_of(const std::vector<Slot>& slots) {
  std::set<std::string> kinds;
  for (const Slot& slot : slots)
    for (const auto& [kind, bytes] : slot.bytes) kinds.insert(kind);
  std::vector<NamedColor> colors;
  for (const std::string& kind : kinds) colors.push_back({kind, message_color(kind)});
  return colors;
}

}  // namespace

double slot_length(double time_step, double seconds) {
  constexpr double most_slots = 300;
  return time_step * std::max(1.0, std::ceil(seconds / (most_slots * time_step) - 1e-6));
}

std::string flow_chart(const std::vector<Sending>& sent, double slot, double seconds,
                       double highest) {
  const std::vector<Slot> slots = fill(sent, slot, seconds);
  double most = highest;
  for (const Slot& one : slots)
    if (highest <= 0) most = std::max(most, one.sum());
  const TimeUnit unit = time_unit(seconds);
  ChartFrame frame(0, slot * static_cast<double>(slots.size()), 0, most);
  frame.y_axis(bytes_text);
  frame.x_axis(unit.name, unit.per_second);
  frame.legend(colors_of(slots));
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const double from = slot * static_cast<double>(i), to = from + slot;
    const double wide = frame.x(to) - frame.x(from);
    std::string text =
        format("from {}: {} begin to be sent", seconds_text(from), bytes_text(slots[i].sum()));
    double base = 0;
    for (const auto& [kind, bytes] : slots[i].bytes) {
      const double top = base + static_cast<double>(bytes);
      frame.add(format(R"(<rect x="{}" y="{}" width="{}" height="{}" fill="{}"/>)"
                       "\n",
                       number(frame.x(from)), number(frame.y(top)),
                       number(wide > 4 ? wide - 1 : wide), number(frame.y(base) - frame.y(top)),
                       message_color(kind)));
      text += format("\n{}: {}", kind, bytes_text(static_cast<double>(bytes)));
      base = top;
    }
    frame.strip(from, to, text);
  }
  return frame.svg("Bytes sent over time");
}

}  // namespace paragrad::parallel
