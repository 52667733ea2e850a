// Roofline: the rate that a GPU's memory and arithmetic allow, by operations per byte, and where
// the rungs of a ladder lie under it.
// Not here: the page around it (ladder_page.h), and what is counted or measured (ladder.cpp).
// Chapter 12; Williams, Waterman and Patterson 2009, "Roofline".
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

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

}  // namespace plangrad::benchmarks
