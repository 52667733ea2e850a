#!/usr/bin/env bash
# The ladder's page: counts and rooflines without a GPU, rates where a GPU's results are given.
#   ladder_page.sh LADDER
set -euo pipefail
ladder=$1
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
fail() { echo "ladder_page.sh: $*" >&2; exit 1; }
has() { grep -qF -- "$2" "$1" || fail "$1 lacks: $2"; }

"$ladder" --ladder layer_norm --size 16 64 --page "$out/page.html" --json "$out/emulated.json" >"$out/table"
has "$out/page.html" "No rate was measured"
has "$out/page.html" "1 plain</td>"
! grep -qE 'https?://|class="measured"' "$out/page.html" || fail "the page needs a network, or shows rates"

! "$ladder" --page "$out/no.html" --measured "$out/emulated.json" 2>"$out/error" >"$out/table" ||
  fail "took the emulator's times for a GPU's"
has "$out/error" "say nothing of a GPU"
sed 's/"emulated": true/"emulated": false/' "$out/emulated.json" >"$out/gpu.json"
"$ladder" --ladder layer_norm --size 16 64 --page "$out/page.html" --gpu H200 --measured "$out/gpu.json" >"$out/table"
has "$out/page.html" 'class="measured"'
has "$out/page.html" "H200 SXM"
