// A page of the ladders: what each rung costs, as the emulator counts it, and where it lies under a
// GPU's roofline. Self-contained, for light and dark screens.
// Not here: the figure (roofline.h), and what is counted or measured (ladder.cpp).
// Chapter 12.
#pragma once

#include <fmt/format.h>

#include <fstream>
#include <string>
#include <vector>

#include "autograd/error.h"
#include "parallel/drawing/palette.h"
#include "tests/benchmarks/roofline.h"

namespace plangrad::benchmarks {

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
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta name=\"viewport\" "
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
