// A report as one HTML page: every figure is SVG that is complete without the script, which adds
// tips, zoom and pan. Not here: style, script (page.cpp), figures (timeline_figure.cpp, chart.h).
// Chapter 06.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "parallel/drawing/chart.h"
#include "parallel/drawing/draw.h"
#include "parallel/drawing/figure.h"
#include "parallel/drawing/timeline_figure.h"

namespace paragrad::parallel {
namespace {

using fmt::format;

std::string section(const std::string& title, const std::string& content) {
  return format("<section>\n<h2>{}</h2>\n{}</section>\n", escape(title), content);
}

std::string facts(const Report& report) {
  if (report.facts.empty()) return "";
  std::string html = "<dl class=\"facts\">\n";
  for (const auto& [name, value] : report.facts)
    html += format("<div><dt>{}</dt><dd>{}</dd></div>\n", escape(name), escape(value));
  return html + "</dl>\n";
}

std::string first_line(const Report& report) {
  return report.note.empty() ? "" : format("<p class=\"note\">{}</p>\n", escape(report.note));
}

std::string tables(const Report& report) {
  std::string html;
  for (const Table& table : report.tables) {
    std::string rows;
    for (const std::vector<std::string>& row : table.rows) {
      const bool heads = &row == &table.rows.front();
      std::string cells;
      for (const std::string& cell : row) {
        const char* tag = heads || &cell == &row.front() ? "th" : "td";
        cells += format("<{}>{}</{}>", tag, escape(cell), tag);
      }
      rows += format("<tr>{}</tr>\n", cells);
    }
    html += section(table.title, format("<table>\n{}</table>\n", rows));
  }
  return html;
}

/// How many seconds of a panel are drawn, so that a browser stays responsive.
double drawable_seconds(const Timeline& timeline) {
  constexpr std::size_t most_records = 8000;
  if (timeline.records.size() <= most_records) return timeline.makespan();
  std::vector<double> starts;
  for (const Record& record : timeline.records) starts.push_back(record.start);
  std::nth_element(starts.begin(), starts.begin() + most_records, starts.end());
  return starts[most_records] > 0 ? starts[most_records] : timeline.makespan();
}

/// A line above figures, with buttons and notes.
std::string tools(const std::string& content) {
  return format("<div class=\"bar-of-tools\">{}</div>\n", content);
}

std::string note(const std::string& text) { return tools(format("<span>{}</span>", escape(text))); }

std::string panels(const std::vector<Panel>& panels) {
  if (panels.empty()) return "";
  constexpr double width = 1120;
  double seconds = 0;
  for (const Panel& panel : panels) {
    check_drawable(panel.timeline);
    seconds = std::max(seconds, drawable_seconds(panel.timeline));
  }
  std::string html = tools(
      "<button data-zoom=\"1.6\">Zoom in</button>"
      "<button data-zoom=\"0.625\">Zoom out</button><button data-zoom=\"0\">All</button>"
      "<span>Ctrl and wheel zoom, dragging moves; cells tell what they are.</span>");
  for (const Panel& panel : panels) {
    FigureLayout layout = suitable_layout(panel.timeline);
    layout.seconds = seconds;
    layout.pixels_per_second = width / seconds;
    layout.alive = layout.zoomable = true;
    layout.path = panel.path;
    html += format("<figure>\n<figcaption>{}</figcaption>\n{}</figure>\n", escape(panel.title),
                   timeline_figure(panel.timeline, layout));
  }
  return section(panels.size() > 1 ? "Timelines, on one scale" : "Timeline", html);
}

/// The chart of bytes over time, in slots of a time step, which shows bursts or an even flow.
std::string flow(const Report& report) {
  if (report.sent.empty() || report.panels.empty()) return "";
  const Timeline& timeline = report.panels.front().timeline;
  const double step = time_step(timeline), seconds = timeline.makespan();
  if (step <= 0) return "";
  const double slot = slot_length(step, seconds);
  return section("Bytes sent over time",
                 note(format("{}, bars of {}; the mean forward or backward takes {}",
                             report.panels.front().title, seconds_text(slot), seconds_text(step))) +
                     flow_chart(report.sent, slot, seconds));
}

/// The charts of sent bytes; empty if only norms and the like were sent.
std::string bytes_sent(const Report& report) {
  constexpr std::int64_t worth_a_chart = 1000;
  std::int64_t sum = 0;
  for (const Traffic& part : report.traffic) sum += part.bytes;
  if (sum < worth_a_chart) return "";
  std::string charts = flow(report) + section("Bytes sent", traffic_chart(report.traffic));
  if (!report.bits.empty())
    charts += section("Bits of each layer's gradient on the wire", bits_chart(report.bits));
  return charts;
}

/// The chart of all ranks' activations: a glance shows whether it is flat, the mean is a number.
std::string activations(const std::vector<MemorySample>& samples, double seconds) {
  const std::string category = "activations";
  const MemoryTotal total = memory_total(samples, category);
  if (total.peak <= 0) return "";
  return section("Activations of all ranks together",
                 note(format("peak {}, {} on average over time", bytes_text(total.peak),
                             bytes_text(total.mean))) +
                     memory_total_chart(total, category, seconds));
}

std::string memory(const std::vector<MemorySample>& samples, const std::string& of) {
  if (samples.empty()) return "";
  std::set<int> ranks;
  double seconds = 0;
  for (const MemorySample& sample : samples) {
    ranks.insert(sample.rank);
    seconds = std::max(seconds, sample.seconds);
  }
  if (seconds <= 0) seconds = 1;
  std::string options, charts;
  const double peak = peak_memory(samples);
  for (int rank : ranks) {
    options += format("<option>{}</option>", rank);
    charts += format("<div data-rank=\"{}\">{}</div>\n", rank,
                     memory_chart(samples, rank, peak, seconds));
  }
  return section("Memory by category" + (of.empty() ? "" : ", " + of),
                 tools(format("<label for=\"rank\">Rank</label><select id=\"rank\">{}</select>"
                              "<span>largest peak of a rank: {}</span>",
                              options, bytes_text(peak))) +
                     charts) +
         activations(samples, seconds);
}

}  // namespace

std::string draw_html(const Report& report) {
  std::string charts;
  for (const Curve& curve : report.curves) charts += section(curve.title, curve_chart(curve));
  charts += memory(report.memory, report.memory_of);
  charts += bytes_sent(report);
  if (!charts.empty()) charts = "<div class=\"charts\">\n" + charts + "</div>\n";
  return format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>{}</title>\n<style>{}</style>\n</head>\n<body>\n<h1>{}</h1>\n{}{}{}{}{}"
      "<div id=\"tip\" role=\"tooltip\" hidden></div>\n<script>{}</script>\n</body>\n</html>\n",
      escape(report.title), page_style, escape(report.title), first_line(report), facts(report),
      panels(report.panels), tables(report), charts, page_script);
}

std::vector<Traffic> traffic(const Timeline& timeline) {
  std::map<std::pair<int, std::string>, std::int64_t> sums;
  for (const Record& record : timeline.records)
    if (record.bytes > 0) sums[{record.rank, message_kind(record.instruction)}] += record.bytes;
  std::vector<Traffic> result;
  for (const auto& [key, bytes] : sums) result.push_back({key.first, key.second, bytes});
  return result;
}

}  // namespace paragrad::parallel
