#!/usr/bin/env bash
# Takes leaves away (tests/leaves.txt), each with the lines that register it, from a copy of the last
# commit; then builds, and runs the tests. By hand: it builds everything.
#   tests/remove_leaves.sh [FOLDER [DATE | NAME...]]
#     FOLDER is new, for the copy. A DATE chooses three leaves: 2026-11-22. Or: the leaves' NAMEs.
# Passes if all builds and every test that fails is a leaf's own: its file, or what that includes of
# tests/, names the leaf; or it is about the chapters, comments and pages, which do.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
folder=${1:-$(mktemp -d)}
shift $(($# > 0))
[[ ! -d $folder || -z $(ls -A "$folder") ]] || { echo "$folder is not empty" >&2; exit 2; }
git -c safe.directory='*' clone -q "$root" "$folder"
cd "$folder"

mapfile -t leaves < <(grep -v '^#' tests/leaves.txt | awk '$4 != "."')
chosen=()
if [[ ${1:-$(date +%F)} =~ ^[0-9]{4}-[0-9]{2}-[0-9]{2}$ ]]; then
  seed=${BASH_REMATCH[0]//-/}
  for step in 0 1 2; do  # three different ones
    chosen+=("${leaves[(seed + step * (1 + seed % 3)) % ${#leaves[@]}]}")
  done
else
  for name; do
    chosen+=("$(printf '%s\n' "${leaves[@]}" | grep -E "^[^ ]+ +$name ")") ||
      { echo "tests/leaves.txt has no leaf $name that can be taken away" >&2; exit 2; }
  done
fi

words=""
for leaf in "${chosen[@]}"; do
  read -r kind name patterns lines <<<"$leaf"
  echo "== without the $kind $name"
  words+="${words:+|}$name"
  for pattern in ${patterns//,/ }; do
    for file in $(compgen -G "$pattern"); do
      words+=$(sed -n 's/.*\.name = "\([^"]*\)".*/|\1/p' "$file" | tr -d '\n')  # as users type it
      [[ $file == tests/* ]] || words+="|$(basename "${file%.*}")"
      git rm -qf "$file"
    done
  done
  [[ $lines == - ]] || for line in ${lines//,/ }; do
    grep -viF -- "${line#*:}" "${line%%:*}" >"$folder/.kept"
    words+="|$(tr -d '()' <<<"${line#*:}")"  # as it is registered
    # The last line of a macro's list has no backslash behind it.
    perl -0pi -e 's/\\\n\n/\n\n/g' "$folder/.kept"
    mv "$folder/.kept" "${line%%:*}"
  done
done

cmake --preset release -DPLANGRAD_TESTS=ON -DPLANGRAD_CUDA=OFF \
  ${LEAVES_CMAKE_FLAGS:-} >/dev/null
cmake --build --preset release -j "$(nproc)" --target tested | tail -n 1
# As tests/run.sh release. Which tests fail is looked at below.
ctest --preset release -j "$(($(nproc) + 1))" -LE checked -E '^tests_cuda_checked_NOT_BUILT' \
  >ctest.log 2>&1 || true
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
    gpu_script_on_the_emulator) file="tests/cuda/device_engine_test.cpp tests/gpu_pack.sh" ;;
    *) file=$(grep -rlF --include='*.cpp' -- "\"${1#*/}\"" tests | head -1) ;;
  esac
  local more=$file
  while [[ -n $more ]]; do  # what is included, and what that includes
    printf '%s\n' $more
    file+=$'\n'$more
    more=$(grep -ohP '^#include "\Ktests/[^"]*' $more | sed 'p; s/h$/cpp/' | sort -u |
      grep -vxF "$file" | xargs -r ls 2>/dev/null) || true
  done
}
while read -r test; do
  [[ -n $test ]] || continue
  case $test in *_are_woven | *_are_drawn | *_of_documents | include_arrows | spine | player_module) continue ;; esac
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
