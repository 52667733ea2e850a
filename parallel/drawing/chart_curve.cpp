// Lines over steps: losses and the like.
// Not here: axes and colours (chart_frame.cpp).
// Chapter 06.
#include "parallel/drawing/chart.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "autograd/error.h"

namespace plangrad::parallel {
namespace {

std::string plain(double value) { return fmt::format("{:.6g}", value); }

using Points = std::map<double, double>;  // y by x

Points finite_points(const Series& series) {
  PG_CHECK(series.x.size() == series.y.size(), "draw: series ", series.name, " has ",
           series.x.size(), " x and ", series.y.size(), " y, expected equal numbers");
  Points points;
  for (std::size_t i = 0; i < series.x.size(); ++i)
    if (std::isfinite(series.y[i])) points[series.x[i]] = series.y[i];
  return points;
}

void add_line(ChartFrame& frame, const Points& points, const std::string& color) {
  std::string path;
  for (auto [x, y] : points)
    path += markup("{}{} {}", path.empty() ? "M" : "L", frame.x(x), frame.y(y));
  frame.add(
      fmt::format(R"(<path d="{}" fill="none" stroke="{}" stroke-width="1.8"/>)", path, color));
  if (points.size() > 40) return;
  for (auto [x, y] : points)
    frame.add(
        markup(R"(<circle cx="{}" cy="{}" r="2.6" fill="{}"/>)", frame.x(x), frame.y(y), color));
}

/// Adds a strip for each x, or for at most 400 of them.
void add_strips(ChartFrame& frame, const Curve& curve, const std::vector<Points>& all) {
  std::set<double> unique;
  for (const Points& points : all)
    for (auto [x, y] : points) unique.insert(x);
  std::vector<double> xs(unique.begin(), unique.end());
  const std::size_t stride = xs.size() / 400 + 1;
  for (std::size_t i = 0; i < xs.size(); i += stride) {
    double before = xs[i - std::min(i, stride)], after = xs[std::min(i + stride, xs.size() - 1)];
    std::string text = fmt::format("{} {:.6g}", curve.x_label, xs[i]);
    for (std::size_t s = 0; s < all.size(); ++s)
      if (auto found = all[s].find(xs[i]); found != all[s].end())
        text += fmt::format("\n{}: {:.4g} {}", curve.series[s].name, found->second, curve.y_label);
    frame.strip((before + xs[i]) / 2, (xs[i] + after) / 2, text);
  }
}

}  // namespace

std::string curve_chart(const Curve& curve) {
  std::vector<Points> all;
  std::vector<std::string> names;
  std::vector<double> xs, ys;
  for (const Series& series : curve.series) {
    all.push_back(finite_points(series));
    names.push_back(series.name);
    for (auto [x, y] : all.back()) xs.push_back(x), ys.push_back(y);
  }
  if (xs.empty()) xs = ys = {0};
  auto [x_low, x_high] = std::minmax_element(xs.begin(), xs.end());
  auto [y_low, y_high] = std::minmax_element(ys.begin(), ys.end());
  double margin = (*y_high - *y_low) * 0.05;
  ChartFrame frame(*x_low, *x_high, *y_low - margin, *y_high + margin);
  frame.y_axis(plain);
  frame.y_label(curve.y_label);
  frame.x_axis(curve.x_label);
  frame.legend(names);
  for (std::size_t i = 0; i < all.size(); ++i) add_line(frame, all[i], series_color(i));
  add_strips(frame, curve, all);
  return frame.svg(curve.title);
}

}  // namespace plangrad::parallel
