// Colours: text on them can be read, and neighbours differ for colour-blind eyes.
#include "parallel/drawing/figure.h"

#include <array>
#include <cmath>
#include <set>

#include "autograd/error.h"
#include "tests/catch.h"

namespace plangrad::parallel {
namespace {

using Three = std::array<double, 3>;

Three linear(const std::string& fill) {
  Three rgb;
  for (int i = 0; i < 3; ++i) {
    const double part = std::stoi(fill.substr(1 + 2 * i, 2), nullptr, 16) / 255.0;
    rgb[i] = part <= 0.04045 ? part / 12.92 : std::pow((part + 0.055) / 1.055, 2.4);
  }
  return rgb;
}

double luminance_of(const std::string& fill) {
  const Three rgb = linear(fill);
  return 0.2126 * rgb[0] + 0.7152 * rgb[1] + 0.0722 * rgb[2];
}

double contrast_of(const std::string& a, const std::string& b) {
  const auto [low, high] = std::minmax({luminance_of(a), luminance_of(b)});
  return (high + 0.05) / (low + 0.05);
}

Three times(const double (&matrix)[3][3], const Three& x) {
  Three y{};
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 3; ++j) y[i] += matrix[i][j] * x[j];
  return y;
}

/// CIELAB of what eyes without green cones see.
/// source: Machado, Oliveira and Fernandes 2009, severity 1
Three seen(const std::string& fill) {
  constexpr double deuteranopia[3][3] = {{0.367322, 0.860646, -0.227968},
                                         {0.280085, 0.672501, 0.047413},
                                         {-0.011820, 0.042940, 0.968881}};
  constexpr double to_xyz[3][3] = {{0.4124 / 0.95047, 0.3576 / 0.95047, 0.1805 / 0.95047},
                                   {0.2126, 0.7152, 0.0722},
                                   {0.0193 / 1.08883, 0.1192 / 1.08883, 0.9505 / 1.08883}};
  Three rgb = times(deuteranopia, linear(fill));
  for (double& part : rgb) part = std::clamp(part, 0.0, 1.0);
  Three f = times(to_xyz, rgb);
  for (double& t : f) t = t > 0.008856 ? std::cbrt(t) : 7.787 * t + 16.0 / 116;
  return {116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])};
}

double distance(const std::string& a, const std::string& b) {
  const Three x = seen(a), y = seen(b);
  return std::sqrt(std::pow(x[0] - y[0], 2) + std::pow(x[1] - y[1], 2) + std::pow(x[2] - y[2], 2));
}

TEST_CASE("palette: each name is there once, and an unknown one is an error") {
  std::set<std::string> names;
  for (const Color& each : palette()) CHECK(names.insert(each.name).second);
  CHECK(color("forward-0").light == std::string("#2b69b0"));
  CHECK_THROWS_WITH(color("mauve"), Contains("no colour \"mauve\""));
}

TEST_CASE("palette: text on every colour of cells and chips has a contrast of 4.5") {
  for (const Color& each : palette())
    for (const std::string fill : {each.light, each.dark}) {
      INFO(each.name << " " << fill);
      CHECK(contrast_of(fill, ink_on(fill)) >= 4.5);
    }
}

TEST_CASE("palette: words and marks can be read on the page, its cards and its lanes") {
  for (const char* words : {"ink", "dim", "accent", "fault", "path"})
    for (const char* ground : {"page", "card", "lane"}) {
      INFO(words << " on " << ground);
      CHECK(contrast_of(color(words).light, color(ground).light) >= 4.5);
      CHECK(contrast_of(color(words).dark, color(ground).dark) >= 4.5);
    }
}

TEST_CASE("palette: neighbours differ for eyes without green cones") {
  const std::vector<std::vector<std::string>> neighbours = {
      {"forward-0", "backward-0", "input-part-0", "weight-part-0"},
      {"forward-1", "backward-1", "input-part-1", "weight-part-1"},
      {"forward-2", "backward-2", "input-part-2", "weight-part-2"},
      {"forward-3", "backward-3", "input-part-3", "weight-part-3"},
      {"forward-0", "forward-1", "forward-2", "forward-3"},
      {"backward-0", "backward-1", "backward-2", "backward-3"},
      {"weights", "gradients", "optimizer", "activations", "communication", "workspace", "index"}};
  for (const auto& group : neighbours)
    for (const std::string& a : group)
      for (const std::string& b : group) {
        if (a >= b) continue;
        INFO(a << " beside " << b);
        CHECK(distance(color(a).light, color(b).light) >= 15);
        CHECK(distance(color(a).dark, color(b).dark) >= 15);
      }
}

TEST_CASE("palette: in grey, a forward is lighter than its backward") {
  for (int shade = 0; shade < shades; ++shade)
    for (const auto theme : {&Color::light, &Color::dark}) {
      const std::string forward = color(text("forward-", shade)).*theme;
      const std::string backward = color(text("backward-", shade)).*theme;
      INFO(forward << " beside " << backward);
      CHECK(luminance_of(forward) > luminance_of(backward));
      CHECK(contrast_of(forward, backward) >= 1.3);
    }
}

TEST_CASE("palette: a computation is coloured by direction and version, a message by its kind") {
  CHECK(color_name(parse_instruction("0F0v1")) == "forward-1");
  CHECK(color_name(parse_instruction("0B0v6")) == "backward-2");
  CHECK(color_name(parse_instruction("0I0v0")) == "input-part-0");
  CHECK(color_name(parse_instruction("0W0v3")) == "weight-part-3");
  CHECK(color_name(parse_instruction("0Sv1")) == "update");
  for (const char* message :
       {"0a0>1", "0g0<1", "0p0>1", "0wv1>1", "0t0>1", "0Rv1@0", "Rnv1@0", "0Gwv1@0"})
    CHECK_NOTHROW(color(color_name(parse_instruction(message))));
}

TEST_CASE("palette: the variables of a page have both themes") {
  const std::string css = palette_css();
  CHECK_THAT(css, Contains("--gradient-sums:#ab4b01;"));
  CHECK_THAT(css, Contains("--gradient-sums:#f3813f;"));
  CHECK_THAT(css, Contains("--forward-0-ink:#ffffff;"));
}

}  // namespace
}  // namespace plangrad::parallel
