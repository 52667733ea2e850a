// The build embeds the files of report/. Chapter 06.
#include "examples/pages/report_page.h"

#include "examples/pages/page_text.h"

namespace plangrad::examples {

extern const char* const report_style;     // CSS, with that of timelines
extern const char* const timeline_script;  // JavaScript of the player, which the next one uses
extern const char* const report_script;

static std::string page_with(const char* kind, const std::string& title, const std::string& data) {
  return page_head(title, palette_css() + report_style) + "<body data-kind=\"" + kind +
         "\">\n<main id=\"page\"><noscript>This page draws its data with a script, which this "
         "browser does not run.</noscript></main>\n<div id=\"tip\" role=\"tooltip\" hidden></div>\n"
         "<script type=\"application/json\" id=\"data\">" +
         json_in_page(data) + "</script>\n<script>\n" + timeline_script + "</script>\n<script>\n" +
         report_script + "</script>\n</body>\n</html>\n";
}

std::string folder_name(const std::filesystem::path& folder) {
  const auto path = std::filesystem::absolute(folder).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

std::string run_page(const std::string& title, const std::string& data) {
  return page_with("run", title, data);
}

std::string comparison_page(const std::string& title, const std::string& data) {
  return page_with("comparison", title, data);
}

}  // namespace plangrad::examples
