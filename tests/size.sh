#!/usr/bin/env bash
# Prints the lines of each folder, in every language that we write, and fails where they are more
# than the limits below. It counts the files that git tracks.
#   tests/size.sh     prints the table
# Blank lines and comments count. Texts (.md, .ipynb) and what programs write (figures, references, golden
# plans, results) do not; a file of a kind that this script does not know counts as code.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# [snippet limits]
# A feature that needs more lines names the lines that it removes.
# Folders   lines at most
limits='
library     42965    autograd, nn, parallel, sparse, and cuda without its emulator
emulator     6800    cuda/emulator
examples    19815    programs and their pages
tests       59110
tutorials    4120    code of chapters: kernels, and scripts that draw and measure
build         700    CMakeLists.txt, .ci/
'
# [end snippet]
# The library is to fall to 37500.

# The folder may belong to another user, which git refuses unless told.
list=$(mktemp)
trap 'rm -f "$list"' EXIT
git -c safe.directory="$PWD" ls-files -z >"$list" 2>/dev/null || {
  echo "size.sh: skipped: this folder is no clone, and git knows which files count"
  exit 77
}

xargs -0 -a "$list" grep -ascH '' | awk -v limits="$limits" '
  # The group of a path, which has the limit, and the row in which it is printed.
  function place(path,   part) {
    split(path, part, "/")
    row = part[1]
    if (path ~ /^(CMakeLists.txt$|\.ci\/)/) row = group = "build"
    else if (path ~ /^cuda\/emulator\//) { group = "emulator"; row = "cuda/emulator" }
    else if (row ~ /^(autograd|nn|parallel|sparse|cuda)$/) group = "library"
    else group = row
    if (row ~ /^(parallel|examples)$/ && part[3] != "") row = row "/" part[2]
  }
  function kind(path) {
    if (path ~ /\.(h|cpp|cu|cuh)$/) return "cpp"
    if (path == "tutorials/player.html") return ""  # written by a program
    if (path ~ /\.(js|css|html)$/) return "page"
    if (path ~ /\.(cmake|sh|py)$|(^|\/)CMakeLists\.txt$|^\.ci\//) return "script"
    if (path ~ /\.(md|ipynb|cff|svg|png|json|jsonl|plan|safetensors|txt)$|(^|\/)LICENSE$|^\.[^\/]*$/) return ""
    return "cpp"  # such as headers without an ending
  }
  {
    split($0, part, /:[0-9]+$/)
    path = part[1]
    lines = substr($0, length(path) + 2)
    type = kind(path)
    if (type == "") { apart += lines; next }
    place(path)
    if (!(row in all)) rows[group] = rows[group] " " row
    count[row, type] += lines
    count[group "*", type] += lines
    all[row] += lines
    all[group "*"] += lines
  }
  function print_row(name, key, limit) {
    printf "%-26s %8d %8d %8d %8d %8s\n", name, count[key, "cpp"], count[key, "page"],
           count[key, "script"], all[key], limit
  }
  END {
    printf "%-26s %8s %8s %8s %8s %8s\n", "folder", "C++,CUDA", "JS,CSS", "scripts", "lines", "limit"
    number = split(limits, line, "\n")
    for (i = 1; i <= number; i++) {
      if (split(line[i], word, / +/) < 2) continue
      group = word[1]
      known[group] = 1
      parts = split(rows[group], row_of, " ")
      for (j = 1; j <= parts; j++) if (parts > 1) print_row("  " row_of[j], row_of[j], "")
      print_row(group, group "*", word[2])
      if (all[group "*"] > word[2])
        wrong[++faults] = "size.sh: " group " has " all[group "*"] " lines, at most " word[2]
    }
    for (group in rows)
      if (!(group in known)) wrong[++faults] = "size.sh:" rows[group] " is in no line of the limits"
    print apart + 0 " lines of texts, data and figures are not counted"
    for (i = 1; i <= faults; i++) print wrong[i]
    exit faults > 0
  }'
