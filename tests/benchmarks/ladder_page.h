// A page of the ladders: what each rung costs, as the emulator counts it, and where it lies under a
// GPU's roofline: the rate that its memory and arithmetic allow, by operations per byte.
// Self-contained, for light and dark screens.
// Not here: what is counted or measured (ladder.cpp).
// Chapter 12; Williams, Waterman and Patterson 2009, "Roofline".
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <fstream>

#include "autograd/error.h"
#include "parallel/drawing/figure.h"

namespace plangrad::benchmarks {

using parallel::escape;
using parallel::number;

/// What a GPU can do at most, by its data sheet; rates of tensor cores are those without sparsity.
struct DataSheet {
  std::string name;
  double bytes_per_second, flops, tensor_flops;
};
/// source: NVIDIA H100 Tensor Core GPU data sheet (SXM), NVIDIA H200 Tensor Core GPU data sheet
inline DataSheet data_sheet(const std::string& gpu) {
  return {gpu + " SXM", gpu == "H200" ? 4.8e12 : 3.35e12, 67e12, 989.5e12};
}

struct PageRung {
  std::string name, idea, file;
  double flops = 0;
  double cached_bytes = 0;           ///< counted: a cache that forgets nothing
  double all_bytes = 0;              ///< counted: no cache
  bool tensor = false;               ///< it uses tensor cores
  double rate = 0;                   ///< measured, in operations a second; 0: not measured
  std::vector<std::string> cells{};  ///< other counts, under the page's column names
};
struct PageLadder {
  std::string title, formula;
  std::vector<PageRung> rungs;
};
/// The roofline of a ladder. Above, rates that bytes and operations allow; below, a bar for each
/// rung, from its operations per byte without a cache to those with one.
class Roofline {
 public:
  Roofline(const DataSheet& sheet, const PageLadder& ladder) : sheet_(sheet), ladder_(ladder) {
    double least = 1, most = 1;
    for (const PageRung& rung : ladder.rungs) {
      least = std::min(least, rung.flops / rung.all_bytes);
      most = std::max(most, rung.flops / rung.cached_bytes);
    }
    const bool tensor = std::any_of(ladder.rungs.begin(), ladder.rungs.end(),
                                    [](const PageRung& rung) { return rung.tensor; });
    top_ = tensor ? sheet.tensor_flops : sheet.flops;
    first_ = std::floor(std::log2(least)) - 1;
    last_ = std::ceil(std::log2(std::max(most, top_ / sheet.bytes_per_second))) + 1;
    low_ = std::floor(std::log10(roof(std::exp2(first_), true)));
    for (const PageRung& rung : ladder.rungs)
      if (rung.rate > 0) low_ = std::min(low_, std::floor(std::log10(rung.rate)));
    high_ = std::log10(top_) + 0.35;
  }

  std::string svg() const {
    std::string s = fmt::format(
        "<svg class=\"chart\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"Roofline of {}\">\n",
        width, bottom + 34 + row * ladder_.rungs.size(), escape(ladder_.title));
    axes(s);
    ceiling(s, sheet_.flops, "f32");
    if (top_ > sheet_.flops) ceiling(s, sheet_.tensor_flops, "tensor cores, bf16");
    for (std::size_t i = 0; i < ladder_.rungs.size(); ++i) bar(s, ladder_.rungs[i], i);
    return s + "</svg>\n";
  }

 private:
  static constexpr double width = 830, left = 64, right = 640, top = 16, bottom = 300, row = 22;

  double roof(double intensity, bool tensor) const {
    return std::min(intensity * sheet_.bytes_per_second,
                    tensor ? sheet_.tensor_flops : sheet_.flops);
  }
  double x(double intensity) const {
    return left + (right - left) * (std::log2(intensity) - first_) / (last_ - first_);
  }
  double y(double rate) const {
    return bottom - (bottom - top) * (std::log10(rate) - low_) / (high_ - low_);
  }

  void axes(std::string& s) const {
    const double end = bottom + 8 + row * ladder_.rungs.size();
    for (double i = first_; i <= last_; ++i) {
      const double at = x(std::exp2(i));
      s += fmt::format("<path class=\"grid\" d=\"M{0} {1}V{2}\"/>", number(at), top, number(end));
      if (static_cast<int>(i - first_) % 2 == 0)
        s += fmt::format(
            "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", number(at),
            number(end + 14),
            i < 0 ? fmt::format("1/{}", std::exp2(-i)) : fmt::format("{}", std::exp2(i)));
    }
    s += fmt::format("<text x=\"{}\" y=\"{}\">operations per byte</text>\n", right + 24,
                     number(end + 14));
    for (double i = std::ceil(low_); i <= high_; ++i)
      s += fmt::format(
          "<path class=\"grid\" d=\"M{} {}H{}\"/><text x=\"{}\" y=\"{}\" "
          "text-anchor=\"end\">{}</text>\n",
          left, number(y(std::pow(10, i))), right, left - 8, number(y(std::pow(10, i)) + 4),
          fmt::format("{} T", std::pow(10, i - 12)));
    s += fmt::format("<text x=\"8\" y=\"{}\">FLOP/s</text>\n", top - 4);
  }

  void ceiling(std::string& s, double flops, const std::string& name) const {
    s += fmt::format("<path class=\"roof\" d=\"M{} {}L{} {}H{}\"/>", number(x(std::exp2(first_))),
                     number(y(std::exp2(first_) * sheet_.bytes_per_second)),
                     number(x(flops / sheet_.bytes_per_second)), number(y(flops)), right);
    s += fmt::format("<text class=\"label\" x=\"{}\" y=\"{}\">{} {:g} T</text>\n", right + 10,
                     number(y(flops) + 4), name, flops / 1e12);
  }

  /// The bar, and the part of the roof above it: what the rung can reach at most.
  void bar(std::string& s, const PageRung& rung, std::size_t i) const {
    const double least = rung.flops / rung.all_bytes, most = rung.flops / rung.cached_bytes;
    const double at = bottom + 18 + row * i,
                 ridge = roof(1e9, rung.tensor) / sheet_.bytes_per_second;
    const std::string tip = fmt::format(
        "{}: {:.3g} operations per byte without a cache, {:.3g} with one; at most {:.3g} to {:.3g} "
        "TFLOP/s",
        rung.name, least, most, roof(least, rung.tensor) / 1e12, roof(most, rung.tensor) / 1e12);
    s += fmt::format("<g><title>{}</title>", escape(tip));
    s += fmt::format("<path class=\"part\" d=\"M{} {}", number(x(least)),
                     number(y(roof(least, rung.tensor))));
    if (least < ridge && most > ridge)
      s += fmt::format("L{} {}", number(x(ridge)), number(y(roof(ridge, rung.tensor))));
    s += fmt::format("L{} {}\"/>", number(x(most)), number(y(roof(most, rung.tensor))));
    s += fmt::format("<path class=\"bar\" d=\"M{} {}H{}\"/>", number(x(least)), number(at),
                     number(x(most)));
    for (const auto& [where, kind] : {std::pair(least, "none"), std::pair(most, "cache")})
      s += fmt::format(
          "<circle class=\"{2}\" cx=\"{0}\" cy=\"{1}\" r=\"4.5\"/>"
          "<circle class=\"{2}\" cx=\"{0}\" cy=\"{3}\" r=\"4\"/>",
          number(x(where)), number(at), kind, number(y(roof(where, rung.tensor))));
    s += fmt::format("<text class=\"label\" x=\"{}\" y=\"{}\">{}</text>", right + 10,
                     number(at + 4), escape(rung.name));
    if (rung.rate > 0)
      s += fmt::format(
          "<path class=\"measured\" d=\"M{} {}H{}\"/><text class=\"label\" x=\"{}\" y=\"{}\">"
          "{}</text>",
          number(x(least)), number(y(rung.rate)), number(std::max(x(most), x(least) + 6)),
          number(x(most) + 8), number(y(rung.rate) + 4), escape(rung.name));
    s += "</g>\n";
  }

  const DataSheet& sheet_;
  const PageLadder& ladder_;
  double top_, first_, last_, low_, high_;
};

struct Page {
  std::string remark;  ///< where counts and rates come from
  std::vector<std::string> columns;
  std::vector<PageLadder> ladders;
};

inline constexpr const char* ladder_style = R"(
:root { color-scheme: light dark; }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
       font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 1200px; margin: 0 auto; padding: 24px 24px 60px; }
h1 { margin: 0 0 8px; font-size: 25px; font-weight: 650; letter-spacing: -.01em; }
h2 { margin: 0 0 2px; font-size: 18px; font-weight: 650; }
p { margin: 0 0 8px; max-width: 110ch; }
.about { color: var(--dim); font-size: 13.5px; }
.remark { padding: 10px 14px; border-left: 4px solid var(--series-1); background: var(--card);
          border-radius: 0 8px 8px 0; }
section { margin: 18px 0; padding: 16px 18px; background: var(--card);
          border: 1px solid var(--line); border-radius: 10px; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 13.5px; font-variant-numeric: tabular-nums; }
th, td { padding: 4px 10px; text-align: right; border-bottom: 1px solid var(--line); }
th { color: var(--dim); font-weight: 600; vertical-align: bottom; }
th:first-child, td:first-child, th:nth-child(2), td:nth-child(2) { text-align: left; }
td { white-space: nowrap; }
td:nth-child(2) { min-width: 24ch; white-space: normal; }
.chart { display: block; width: 100%; max-width: 860px; min-width: 560px; font-size: 11.5px; }
.chart text { fill: var(--dim); }
.chart .label { fill: var(--ink); }
.grid { stroke: var(--line); fill: none; }
.roof { stroke: var(--dim); fill: none; stroke-width: 1.5; }
.part { stroke: var(--series-0); fill: none; stroke-width: 4; stroke-opacity: .35; }
.bar { stroke: var(--series-0); stroke-width: 3; }
.none { fill: var(--series-0); stroke: var(--series-0); stroke-width: 2; }
.cache { fill: var(--card); stroke: var(--series-0); stroke-width: 2; }
.measured { stroke: var(--series-1); stroke-width: 4; fill: none; }
)";

inline std::string table_of(const Page& page, const PageLadder& ladder) {
  std::string s = "<div class=\"wide\"><table><tr><th>rung</th><th>idea</th>";
  for (const std::string& column : page.columns) s += "<th>" + escape(column) + "</th>";
  s += "</tr>\n";
  for (const PageRung& rung : ladder.rungs) {
    s += fmt::format("<tr><td title=\"{}\">{}</td><td>{}</td>", escape(rung.file),
                     escape(rung.name), escape(rung.idea));
    for (const std::string& cell : rung.cells) s += "<td>" + escape(cell) + "</td>";
    s += "</tr>\n";
  }
  return s + "</table></div>\n";
}

/// The whole page, in HTML.
inline std::string html_of(const Page& page, const DataSheet& sheet) {
  std::string s = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta http-equiv="
      "\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'unsafe-inline'\">\n<meta name=\"viewport\" "
      "content=\"width=device-width, initial-scale=1\">\n<title>The ladders under a "
      "roofline</title>\n<style>{}{}</style></head><body><main>\n"
      "<h1>The ladders under the roofline of an {}</h1>\n<p class=\"remark\">{}</p>\n",
      parallel::palette_css(), ladder_style, sheet.name, escape(page.remark));
  s += fmt::format(
      "<p>A kernel that does I operations for each byte of device memory can reach I times the "
      "memory's rate at most, and at most the rate of the arithmetic that it uses: the roof. Its "
      "lines are from NVIDIA's data sheet: {:.2f} TB/s, {:g} TFLOP/s in f32, {:g} on tensor cores "
      "in bf16 without sparsity. How many bytes come from memory depends on caches. So each rung "
      "has a bar: the filled dot counts the 32-byte sectors of all its requests, as without any "
      "cache, and the hollow one counts each different sector once, as with a cache that forgets "
      "nothing. A GPU lies between them. The thick part of the roof is the most that the rung can "
      "reach there.</p>\n",
      sheet.bytes_per_second / 1e12, sheet.flops / 1e12, sheet.tensor_flops / 1e12);
  for (const PageLadder& ladder : page.ladders)
    s += fmt::format(
        "<section><h2>{}</h2><p class=\"about\">{}</p>\n<div class=\"wide\">{}</div>{}</section>\n",
        escape(ladder.title), escape(ladder.formula), Roofline(sheet, ladder).svg(),
        table_of(page, ladder));
  return s + "</main></body></html>\n";
}

/// throws: Error if the file can't be written
inline void write_page(const std::string& file, const Page& page, const DataSheet& sheet) {
  std::ofstream out(file);
  out << html_of(page, sheet) << std::flush;
  PG_CHECK(out.good(), "ladder: could not write ", file, "; give a file in a folder that is there");
}

}  // namespace plangrad::benchmarks
