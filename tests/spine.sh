#!/usr/bin/env bash
# Fails where the spine (tests/spine.txt), its path or its closure is too long; where one of its
# sources stands there without its header; where one of its files includes a leaf (tests/leaves.txt),
# be it by way of other files; where a leaf includes another of its kind; or where a file registers
# itself and is no leaf.
#   tests/spine.sh           checks
#   tests/spine.sh --count   prints its files and lines, too
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
most_files=50 most_lines=6000 most_on_path=14
most_reached=8700  # lines of the closure: the spine and all that its files include
wrong=0
complain() { echo "$*"; wrong=1; }

mapfile -t spine < <(grep -v '^#' tests/spine.txt)
path=$(sed -n 's/^# path //p' tests/spine.txt)
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
for file in "${spine[@]}"; do
  header=${file%.cpp}.h
  [[ $file != *.cpp || ! -f $header || -v reached[$header] ]] ||
    complain "$file is on the spine without $header"
done
for file in $path; do
  [[ -v reached[$file] ]] || complain "$file is on the path, and not on the spine"
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
  [[ $file != tests/* ]] || continue
  for next in $(includes "$file"); do
    [[ ${kind_of[$next]-} != "${kind_of[$file]}" || ${name_of[$next]} == "${name_of[$file]}" ]] ||
      complain "$file includes $next, another leaf of its kind (${kind_of[$file]})"
  done
done
# What registers itself is a leaf, unless the spine has it or its header.
kinds='^(extern const Schedule |CodecEntry [a-z0-9_]+_codec\(|ReductionEntry [a-z0-9_]+_reduction\()'
kinds+='|^class (?!AskingObserver|TransportAround).*: public .*(Transport(Around)?|Observer.*) {$'
while read -r file; do
  [[ -z $file || -n ${kind_of[$file]-} || " ${spine[*]} " =~ \ ${file%.*}\.(h|cpp)\  ]] ||
    complain "$file registers something; add it to tests/leaves.txt"
done < <(grep -rlP "$kinds" --include=*.{h,cpp} --exclude-dir=emulator \
  parallel sparse cuda examples 2>/dev/null)
[[ ${#spine[@]} -le $most_files ]] || complain "the spine has ${#spine[@]} files, at most $most_files"
[[ $lines -le $most_lines ]] || complain "the spine has $lines lines, at most $most_lines"
closure=0 files=0
for file in "${!reached[@]}"; do
  [[ -f $file ]] || continue
  closure=$((closure + $(wc -l <"$file"))) files=$((files + 1))
done
[[ $closure -le $most_reached ]] ||
  complain "the spine and what it includes have $closure lines, at most $most_reached"
on_path=$(wc -w <<<"$path")
[[ $on_path -le $most_on_path ]] || complain "the path has $on_path files, at most $most_on_path"
[[ ${1-} != --count ]] || echo "${#spine[@]} files, $lines lines; closure: $files files," \
  "$closure lines; path: $on_path files"
exit $wrong
