// A label has a line for each number, so that narrow cells can show several. All cells of a row
// have the same lines. Not here: colours (timeline_legend.cpp).
// Chapter 06.
#include "parallel/drawing/timeline_labels.h"

#include <algorithm>
#include <set>

#include "parallel/drawing/figure.h"

namespace plangrad::parallel {
namespace {

constexpr int label_pitch = 11;

bool is_labelled(const Record& record) { return uses_weights(record.instruction); }

std::size_t digits_of(int value) { return std::to_string(value).size(); }

}  // namespace

CellLabels::CellLabels(const Timeline& timeline, const FigureLayout& layout)
    : layout_(layout), several_stages_(has_several_stages(timeline)) {
  for (const Record& record : timeline.records) {
    if (!is_labelled(record)) continue;
    const Instruction& x = record.instruction;
    longest_micro_ = std::max(longest_micro_, digits_of(x.micro));
    longest_stage_ = std::max(longest_stage_, 1 + digits_of(x.stage));
    longest_version_ = std::max(longest_version_, 1 + digits_of(x.version));
  }
  const bool versions = has_several_versions(timeline);
  for (int rank = 0; rank < layout.ranks; ++rank)
    rows_.push_back({several_stages_ && has_room(timeline, rank, longest_stage_),
                     versions && has_room(timeline, rank, longest_version_)});
}

/// Whether all cells of a rank that show their microbatch have room for `characters`.
bool CellLabels::has_room(const Timeline& timeline, int rank, std::size_t characters) const {
  return std::ranges::all_of(timeline.records, [&](const Record& record) {
    if (record.rank != rank || !is_labelled(record) || record.start > layout_.seconds) return true;
    const double wide = (record.end - record.start) * layout_.pixels_per_second;
    return label_size(wide, longest_micro_) == 0 || label_size(wide, characters) == 11;
  });
}

double CellLabels::cell_height() const {
  int lines = 1;
  for (const Lines& row : rows_) lines = std::max(lines, 1 + row.stage + row.version);
  return lines == 1 ? 26 : 7 + label_pitch * lines;
}

std::string CellLabels::explanation() const {
  bool stage = false, bar = false, version = false;
  for (const Lines& row : rows_) {
    stage |= row.stage;
    bar |= several_stages_ && !row.stage;
    version |= row.version;
  }
  if (!stage && !bar && !version) return "";
  return std::string("number: microbatch") + (stage ? ", s: stage" : "") +
         (version ? ", v: version" : "") + (bar ? ", white bar: which of the rank's stages" : "");
}

std::vector<std::string> CellLabels::words(const Record& record, bool low) const {
  const Instruction& x = record.instruction;
  std::vector<std::string> words{std::to_string(x.micro)};
  if (low) return words;
  if (rows_[record.rank].stage) words.push_back("s" + std::to_string(x.stage));
  if (rows_[record.rank].version) words.push_back("v" + std::to_string(x.version));
  return words;
}

std::string CellLabels::svg(const Record& record, double from, double wide, double top,
                            double height, bool low) const {
  if (!is_labelled(record)) return "";
  const int size = label_size(wide, longest_micro_);
  if (size == 0) return "";
  const std::vector<std::string> lines = words(record, low);
  const char* color = cell_color(record.instruction).text;
  double baseline =
      top + height / 2 + 4 - label_pitch * (static_cast<double>(lines.size()) - 1) / 2;
  std::string svg;
  for (const std::string& words : lines) {
    svg += line(words, from + wide / 2, baseline, size, color);
    baseline += label_pitch;
  }
  return svg;
}

std::string CellLabels::line(const std::string& words, double middle, double baseline, int size,
                             const char* color) const {
  std::string attributes = size == 8 ? R"( font-size="8")" : "";
  return markup(R"(<text x="{}" y="{}" fill="{}"{}>{}</text>)"
                "\n",
                middle, baseline, color, attributes, words);
}

int label_size(double wide, std::size_t characters) {
  for (int size : {11, 8})
    if (wide >= label_width(size, characters)) return size;
  return 0;
}

bool has_several_versions(const Timeline& timeline) {
  std::set<int> versions;
  for (const Record& record : timeline.records)
    if (is_labelled(record)) versions.insert(record.instruction.version);
  return versions.size() > 1;
}

double label_width(double font_size, std::size_t characters) {
  return 0.6 * font_size * static_cast<double>(characters) + font_size / 4;
}

}  // namespace plangrad::parallel
