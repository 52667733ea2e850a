// The fixed parts of the page that draw_html writes: its style and its script.
// Chapter 06.
#pragma once

namespace paragrad::parallel {

extern const char* const page_style;
extern const char* const page_script;

}  // namespace paragrad::parallel
