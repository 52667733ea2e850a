# Writes a C++ source with a script's text: cmake -DSCRIPT=... -DSOURCE=... -P embed.cmake
# Without a script, the text is empty.
set(text "")
if(SCRIPT)
  file(READ ${SCRIPT} text)
endif()
file(WRITE ${SOURCE} "// Written by the build.
#include \"parallel/drawing/player/wasm/module.h\"

#pragma GCC diagnostic ignored \"-Woverlength-strings\"

namespace plangrad::parallel {

std::string_view player_module() { return R\"module(${text})module\"; }

}  // namespace plangrad::parallel
")
