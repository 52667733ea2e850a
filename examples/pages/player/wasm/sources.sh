#!/usr/bin/env bash
# Prints the checksum of the sources of the player's module, comments and blank lines apart:
#   sources.sh COMPILER BATCHES     BATCHES is the folder with what module.cmake compiles
set -euo pipefail
export LC_ALL=C  # files in one order everywhere
compiler=$1 batches=$(realpath "$2")
cd "$(dirname "${BASH_SOURCE[0]}")/../../../.."
here=examples/pages/player/wasm
{
  sed "s|^#include \"$PWD/|#include \"|" "$batches"/*.cpp |  # relative, as a folder may have spaces
    "$compiler" -std=c++20 -MM -DNDEBUG -I. -x c++ - | tr -s ' \\' '\n' | grep '\.\(h\|cpp\)$'
  printf '%s\n' "$here"/shims/* "$here"/{answer.js,pack.js}
} | sort -u | xargs sed -E 's|[[:space:]]*//.*||; /^[[:space:]]*$/d' | sha256sum | cut -c 1-16
