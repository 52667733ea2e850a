#!/usr/bin/env bash
# Fails where the spine (tests/spine.txt) is too long, where one of its files includes a leaf
# (tests/leaves.txt), be it by way of other files, where a leaf includes another of its kind, or
# where a file registers itself and is no leaf.
#   tests/spine.sh           checks
#   tests/spine.sh --count   prints its files and lines, too
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
most_files=40 most_lines=5000
wrong=0
complain() { echo "$*"; wrong=1; }

mapfile -t spine < <(grep -v '^#' tests/spine.txt)
declare -A kind_of name_of
while read -r kind name patterns _; do
  for pattern in ${patterns//,/ }; do
    while read -r file; do
      [[ ! -f $file ]] || kind_of[$file]=$kind name_of[$file]=$name
    done < <(compgen -G "$pattern")
  done
done < <(grep -v '^#' tests/leaves.txt)

declare -A included  # by file: what it includes, found once
includes() {
  [[ -v included[$1] ]] || included[$1]=$(grep -oP '^\s*#\s*include\s*"\K[^"]+' "$1" || true)
  printf '%s\n' "${included[$1]}"
}

lines=0
declare -A reached
for file in "${spine[@]}"; do
  [[ -f $file ]] || { complain "tests/spine.txt: $file is not there"; continue; }
  count=$(wc -l <"$file")
  lines=$((lines + count))
  [[ ${1-} != --count ]] || printf '%5d %s\n' "$count" "$file"
  [[ -z ${kind_of[$file]-} ]] || complain "$file is on the spine, and a leaf (${kind_of[$file]})"
  reached[$file]=$file
done
queue=("${!reached[@]}")
while [[ ${#queue[@]} -gt 0 ]]; do
  file=${queue[-1]}
  unset 'queue[-1]'
  [[ -f $file ]] || continue
  for next in $(includes "$file"); do
    [[ ! -v reached[$next] ]] || continue
    reached[$next]=${reached[$file]}
    [[ -z ${kind_of[$next]-} ]] ||
      complain "${reached[$file]} reaches the leaf $next (${kind_of[$next]}) by $file"
    queue+=("$next")
  done
done
for file in "${!kind_of[@]}"; do
  for next in $(includes "$file"); do
    [[ ${kind_of[$next]-} != "${kind_of[$file]}" || ${name_of[$next]} == "${name_of[$file]}" ]] ||
      complain "$file includes $next, another leaf of its kind (${kind_of[$file]})"
  done
done
# What registers itself is a leaf, unless the spine has it.
while read -r file; do
  [[ -z $file || -n ${kind_of[$file]-} || " ${spine[*]} " == *" $file "* ]] ||
    complain "$file registers something; add it to tests/leaves.txt"
done < <(grep -rlE '^(extern const Schedule |CodecEntry [a-z0-9_]+_codec\()' --include=*.cpp \
  parallel 2>/dev/null)
[[ ${#spine[@]} -le $most_files ]] || complain "the spine has ${#spine[@]} files, at most $most_files"
[[ $lines -le $most_lines ]] || complain "the spine has $lines lines, at most $most_lines"
[[ ${1-} != --count ]] || echo "${#spine[@]} files, $lines lines"
exit $wrong
