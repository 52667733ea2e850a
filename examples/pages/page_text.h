// What all pages begin with, and data in them, which has strings of others: names of files, notes.
// Not here: the pages (report_page.h, player/player_page.h). Chapter 06.
#pragma once

#include "parallel/drawing/figure.h"

namespace plangrad::examples {

using namespace plangrad::parallel;

/// JSON for a script element. Without < in it, no string ends the element or opens a comment there.
inline std::string json_in_page(const std::string& json) {
  std::string result;
  result.reserve(json.size());
  for (const char c : json) {
    if (c == '<')
      result += "\\u003c";
    else
      result += c;
  }
  return result;
}

/// The first bytes of every page, by which write_result() knows a page of these programs.
inline constexpr const char* page_start =
    "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<meta name=\"generator\" content=\"plangrad\">\n";

/// The page up to its body. Its scripts and styles are its own, and it loads nothing else.
///   scripts: more that its scripts may do, as a content security policy says it
inline std::string page_head(const std::string& title, const std::string& style,
                             const std::string& scripts = "") {
  return std::string(page_start) +
         "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
         "img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'" +
         scripts +
         "\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>" +
         escape(title) + "</title>\n<style>\n" + style + "</style>\n</head>\n";
}

}  // namespace plangrad::examples
