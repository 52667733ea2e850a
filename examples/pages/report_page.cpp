// The build embeds the files of report/. JSON in a page must not close its element: a slash
// behind < is escaped.
// Chapter 06.
#include "examples/pages/report_page.h"

#include "parallel/drawing/figure.h"

namespace plangrad::parallel {

extern const char* const report_style;     // CSS, with that of timelines
extern const char* const timeline_script;  // JavaScript of the player, which the next one uses
extern const char* const report_script;

namespace {

std::string escaped_for_script(const std::string& json) {
  std::string result;
  result.reserve(json.size());
  for (const char c : json) {
    if (c == '/' && !result.empty() && result.back() == '<') result += '\\';
    result += c;
  }
  return result;
}

std::string page_with(const char* kind, const std::string& title, const std::string& data) {
  return "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>" +
         escape(title) + "</title>\n<style>\n" + palette_css() + report_style +
         "</style>\n</head>\n<body data-kind=\"" + kind +
         "\">\n<main id=\"page\"><noscript>This page draws its data with a script, which this "
         "browser does not run.</noscript></main>\n<div id=\"tip\" role=\"tooltip\" hidden></div>\n"
         "<script type=\"application/json\" id=\"data\">" +
         escaped_for_script(data) + "</script>\n<script>\n" + timeline_script +
         "</script>\n<script>\n" + report_script + "</script>\n</body>\n</html>\n";
}

}  // namespace

std::string run_page(const std::string& title, const std::string& data) {
  return page_with("run", title, data);
}

std::string comparison_page(const std::string& title, const std::string& data) {
  return page_with("comparison", title, data);
}

}  // namespace plangrad::parallel
