#!/usr/bin/env bash
# The module in tutorials/player.html is that of today's sources, and answers as the library does:
#   player_module.sh COMPILER NODE BATCHES SCRIPT.js PROGRAM...
# Without Node the exit status is 77, which ctest counts as skipped, after the sources are compared.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
compiler=$1 node=$2 batches=$3 script=$4
module=$(mktemp -d)/player.js
trap 'rm -rf "${module%/*}"' EXIT
sed -n '/id="module">/,/<\/script>/p' tutorials/player.html | sed 's/^<script.*//; /^<\/script>/d' >"$module"
sources=$(examples/pages/player/wasm/sources.sh "$compiler" "$batches")
grep -q "of sources $sources\$" "$module" || {
  echo "The module in tutorials/player.html is not of today's sources ($sources):" \
    "run tutorials/player.sh, rebuild, and run tutorials/figures.sh"
  exit 1
}
[[ $node && $node != *NOTFOUND ]] || { echo "skipped: there is no Node to ask the module"; exit 77; }
"$node" "$script" "$module" "${@:5}"
