#!/usr/bin/env bash
# Prints the checksum of the sources of the player's module, comments and blank lines apart:
#   sources.sh COMPILER BATCHES     BATCHES is the folder with what module.cmake compiles
set -euo pipefail
compiler=$1 batches=$(realpath "$2")
cd "$(dirname "${BASH_SOURCE[0]}")/../../../.."
here=examples/pages/player/wasm
{
  "$compiler" -std=c++20 -MM -DNDEBUG -I. "$batches"/*.cpp | tr -s ' \\' '\n' |
    sed "\\|^$batches/|d; s|^$PWD/||" | grep '^[^/].*\.\(h\|cpp\)$'
  printf '%s\n' "$here"/shims/* "$here"/{answer.js,pack.js}
} | sort -u | xargs sed -E 's|[[:space:]]*//.*||; /^[[:space:]]*$/d' | sha256sum | cut -c 1-16
