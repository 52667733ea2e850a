// Places of cells in a plan's text, which may have comments, empty lines and odd spaces.
// Not here: what the words mean (plan/plan_text.cpp). Chapter 06.
#include <nlohmann/json.hpp>

#include "examples/pages/player/columns.h"
#include "examples/pages/player/player_parts.h"

namespace plangrad::examples {
namespace {

struct Word {
  int line, column, length;
  std::string text;
};

/// The words of the lines that have any, without comments.
std::vector<std::vector<Word>> words_of(const std::string& text) {
  std::vector<std::vector<Word>> lines;
  int number = 0;
  for (std::string line : split(text, '\n')) {
    line.resize(std::min(line.find('#'), line.size()));
    constexpr const char* blanks = " \t\r\v\f";
    std::vector<Word> words;
    for (std::size_t from, to = 0; (from = line.find_first_not_of(blanks, to)) != line.npos;) {
      to = std::min(line.find_first_of(blanks, from), line.size());
      words.push_back({number, static_cast<int>(from), static_cast<int>(to - from),
                       line.substr(from, to - from)});
    }
    if (!words.empty()) lines.push_back(std::move(words));
    ++number;
  }
  return lines;
}

bool is_cell(const Word& word) { return word.text != "|" && word.text != "-"; }

}  // namespace

nlohmann::json places_json(const std::string& text, const Plan& plan) {
  std::vector<int> lines, row_begin{0};
  std::vector<std::int64_t> columns, lengths;
  const auto all = words_of(text);
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    for (const Word& word : all.at(rank + 1))
      if (is_cell(word)) {
        columns.push_back(word.column);
        lengths.push_back(word.length);
      }
    lines.push_back(all.at(rank + 1).front().line);
    row_begin.push_back(static_cast<int>(columns.size()));
  }
  return {{"line", lines},
          {"row_begin", row_begin},
          {"column", pack(columns)},
          {"length", pack(lengths)}};
}

nlohmann::json place_of(const std::string& text, int rank, int index) {
  const auto all = words_of(text);
  const int line = rank < 0 ? 0 : rank + 1;
  if (line >= static_cast<int>(all.size())) return nullptr;
  const std::vector<Word>& words = all[line];
  if (rank < 0) {
    const Word& last = words.back();
    return {last.line, 0, last.column + last.length};
  }
  const Word* found = &words.back();
  int cell = 0;
  for (const Word& word : words)
    if (is_cell(word) && cell++ == index) found = &word;
  return {found->line, found->column, found->length};
}

nlohmann::json place_of_bad_word(const std::string& text) {
  const auto all = words_of(text);
  for (std::size_t line = 1; line < all.size(); ++line)
    for (const Word& word : all[line]) try {
        if (is_cell(word)) parse_instruction(word.text);
      } catch (const std::exception&) {
        return {word.line, word.column, word.length};
      }
  return nullptr;
}

}  // namespace plangrad::examples
