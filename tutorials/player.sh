#!/usr/bin/env bash
# Makes the module in tutorials/player.html anew, by emscripten (Debian: emscripten), which every page
# of a plan has: our code as WebAssembly. Needed where a source of it has changed, which the test
# player_module sees. Then rebuild, and let figures.sh draw the page.
#   player.sh [BUILD]       BUILD is a configured folder; without it, build
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=${1:-build}
page=tutorials/player.html new=$build/player/page.html

command -v em++ node >/dev/null || { echo "player.sh: emscripten is not installed" >&2; exit 2; }
cmake "$build" >/dev/null  # which may not have found em++ before
cmake --build "$build" --target plangrad_player_module
sources=$(examples/pages/player/wasm/sources.sh "${CXX:-g++}" "$build/player")
awk -v module="$build/player/player.js" -v sources="$sources" '
  /<\/script>/ { within = 0 }
  !within { print }
  /id="module">/ {
    within = 1
    print "// plangrad as WebAssembly, made by tutorials/player.sh of sources " sources
    print "// With the runtime of emscripten, under the MIT licence"
    while ((getline line <module) > 0) print line
  }' "$page" >"$new"
cp "$new" "$page"
echo "wrote the module of $page"
