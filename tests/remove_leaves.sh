#!/usr/bin/env bash
# Takes three leaves away (tests/leaves.txt), each with the lines that register it, from a copy of
# the last commit; then builds, and runs the tests. By hand: it builds everything.
#   tests/remove_leaves.sh [FOLDER [DATE]]    FOLDER: for the copy, new; DATE chooses: 2026-11-22
# Passes if all builds and every test that fails is a leaf's own: its file, or what that includes of
# tests/, names the leaf; or it is about the chapters and comments, which do.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
folder=${1:-$(mktemp -d)}
date=${2:-$(date +%F)}
[[ ! -d $folder || -z $(ls -A "$folder") ]] || { echo "$folder is not empty" >&2; exit 2; }
git -c safe.directory='*' clone -q "$root" "$folder"
cd "$folder"

mapfile -t leaves < <(grep -v '^#' tests/leaves.txt | awk '$4 != "."')
seed=$((10#${date//-/}))
chosen=()
for step in 0 1 2; do  # three different ones
  at=$(((seed + step * (1 + seed % 3)) % ${#leaves[@]}))
  chosen+=("${leaves[at]}")
done

words=""
for leaf in "${chosen[@]}"; do
  read -r kind name patterns lines <<<"$leaf"
  echo "== without the $kind $name"
  words+="${words:+|}$name"
  for pattern in ${patterns//,/ }; do
    for file in $(compgen -G "$pattern"); do
      git rm -qf "$file"
      stem=$(basename "${file%.*}")
      words+="|$stem"
    done
  done
  [[ $lines == - ]] || for line in ${lines//,/ }; do
    grep -vF -- "${line#*:}" "${line%%:*}" >"$folder/.kept"
    words+="|$(tr -d '()' <<<"${line#*:}")"  # as it is registered
    # The last line of a macro's list has no backslash behind it.
    perl -0pi -e 's/\\\n\n/\n\n/g' "$folder/.kept"
    mv "$folder/.kept" "${line%%:*}"
  done
done

cmake --preset release -DPLANGRAD_TESTS=ON -DPLANGRAD_CUDA=OFF \
  ${LEAVES_CMAKE_FLAGS:-} >/dev/null
cmake --build --preset release -j "$(nproc)" | tail -n 1
ctest --preset release -j 2 >ctest.log 2>&1 || true  # which tests fail is looked at below
grep 'tests passed' ctest.log || { tail -n 20 ctest.log; exit 1; }
failed=$(sed -n '/(Skipped)$/d; s/^[[:space:]]*[0-9]* - \(.*\) ([A-Za-z ]*)$/\1/p' ctest.log)
wrong=0
# The file that a test stands in, and the headers and sources of tests/ that it is made of.
made_of() {
  local file
  case $1 in
    mpi/lost_ranks) file=tests/parallel/mpi/lost_ranks.sh ;;
    mpi/*) file=tests/parallel/mpi/checks.cpp ;;
    fuzz/*) file=tests/fuzz/targets/${1#*/}.cpp ;;
    *_in_browser) file=tests/browser/$1.py ;;
    gpu_script_on_the_emulator) file=tests/cuda/device_engine_test.cpp ;;
    *) file=$(grep -rlF --include='*.cpp' -- "\"${1#*/}\"" tests | head -1) ;;
  esac
  [[ -n $file ]] || return 0
  echo "$file"
  grep -oP '^#include "\Ktests/[^"]*' "$file" | while read -r header; do
    ls "$header" "${header%.h}.cpp" 2>/dev/null || true
  done
}
while read -r test; do
  [[ -n $test ]] || continue
  case $test in *_are_woven | *_are_drawn | *_of_documents | include_arrows | spine) continue ;; esac
  mapfile -t sources < <(made_of "$test")
  if [[ ${#sources[@]} -gt 0 ]] && grep -qiE "$words" "${sources[@]}"; then
    echo "the leaf's own: $test"
  else
    echo "FAILED: $test"
    wrong=1
  fi
done <<<"$failed"
[[ $wrong -eq 0 ]] && echo "without ${words//|/, }: all other tests pass"
exit $wrong
