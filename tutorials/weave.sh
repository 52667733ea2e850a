#!/usr/bin/env bash
# Keeps texts true: puts code and figures into README.md, RESULTS.md, BUILDING.md and tutorials/*.md
# from where they live, and checks their links.
#   <!-- code: PATH#NAME -->   the fenced block after it becomes the region of PATH between the lines
#                              `// [snippet NAME]` and `// [end snippet]` (`#` instead of `//` in scripts)
#   <!-- text: PATH -->        all until <!-- end text --> becomes the file PATH
# weave.sh rewrites the texts; weave.sh --check changes nothing and fails where it would. Both fail
# where a link leads to no file, or to no heading of it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

check=false
case "${1-}" in
  "") ;;
  --check) check=true ;;
  *) echo "weave.sh: unknown argument '$1'; usage: weave.sh [--check]" >&2; exit 2 ;;
esac

# Reads one chapter, prints it woven.
weaver='
function fail(what) {
  printf "weave.sh: %s:%d: %s\n", FILENAME, FNR, what >"/dev/stderr"
  failed = 1; exit 1
}
function marker_part(line) { sub(/^<!-- (code|text): */, "", line); sub(/ *-->.*$/, "", line); return line }

# Prints the lines of a region, without the indentation that they share.
function print_region(path, name,   line, lines, n, inside, found, i, indent, least, status) {
  n = found = inside = 0; least = 1000
  while ((status = (getline line < path)) > 0) {
    if (line ~ /^[ \t]*(\/\/|#) \[snippet [^\]]*\][ \t]*$/) {
      if (inside) fail(path "#" name " has no [end snippet] before the next snippet")
      if (index(line, "[snippet " name "]")) {
        if (found++) fail(path " has two snippets named " name)
        inside = 1
      }
    } else if (line ~ /^[ \t]*(\/\/|#) \[end snippet\][ \t]*$/) inside = 0
    else if (inside) {
      if (line ~ /^[ \t]*```/) fail(path "#" name " holds a code fence")
      lines[++n] = line
      indent = match(line, /[^ \t]/) - 1
      if (indent >= 0 && indent < least) least = indent
    }
  }
  if (status < 0) fail("no file " path)
  if (!found) fail(path " has no snippet named " name)
  if (inside) fail(path "#" name " has no [end snippet]")
  if (!n) fail(path "#" name " is empty")
  close(path)
  for (i = 1; i <= n; i++) print substr(lines[i], least + 1)
}
function language(path) {
  if (path ~ /\.(h|cpp|cu|cuh)$/) return "cpp"
  if (path ~ /\.py$/) return "python"
  if (path ~ /\.sh$/) return "bash"
  if (path ~ /(\.cmake|CMakeLists\.txt)$/) return "cmake"
  return ""
}

after_marker {  # the old block goes; where there is none yet, the line stays
  after_marker = 0
  if ($0 ~ /^```/) { dropping = 1; next }
}
dropping { if ($0 ~ /^```/) dropping = 0; next }
in_text { if ($0 ~ /^<!-- end text -->/) { in_text = 0; print } next }
/^```/ { fenced = !fenced }
{ print }
!fenced && /^<!-- code:/ {
  if (split(marker_part($0), part, "#") != 2) fail("expected <!-- code: PATH#NAME -->")
  print "```" language(part[1])
  print_region(part[1], part[2])
  print "```"
  after_marker = 1
}
!fenced && /^<!-- text:/ {
  path = marker_part($0)
  while ((status = (getline line < path)) > 0) print line
  if (status < 0) fail("no file " path)
  close(path)
  in_text = 1
}
END {
  if (failed) exit 1
  if (in_text) fail("a <!-- text: --> without its <!-- end text -->")
  if (dropping) fail("the code block after the last <!-- code: --> is not closed")
}'

texts=()
for text in README.md RESULTS.md BUILDING.md tutorials/*.md; do
  [[ ! -f $text ]] || texts+=("$text")
done
woven=$(mktemp)
trap 'rm -f "$woven"' EXIT
wrong=0
for chapter in "${texts[@]}"; do
  if ! awk "$weaver" "$chapter" >"$woven"; then
    wrong=1
  elif cmp -s "$chapter" "$woven"; then
    :
  elif $check; then
    diff -u --label "$chapter" --label "$chapter, woven" "$chapter" "$woven" || wrong=1
  else
    cat "$woven" >"$chapter"
    echo "wove $chapter"
  fi
done

# anchors FILE: the names that GitHub gives to the headings of a text.
anchors() {
  awk '/^```/ { fenced = !fenced }
    !fenced && /^#+ / {
      sub(/^#+ +/, ""); gsub(/\]\([^)]*\)/, ""); $0 = tolower($0)
      gsub(/[^a-z0-9_ -]/, ""); gsub(/ /, "-")
      print $0 (seen[$0]++ ? "-" seen[$0] - 1 : "") }' "$1"
}
# Links lead to files and headings. Those of code have neither a dot nor a slash nor a hash.
for chapter in "${texts[@]}"; do
  while read -r link; do
    file=${link%%#*}
    file=${file:+$(dirname "$chapter")/$file}
    file=${file:-$chapter}
    if [[ ! -e $file ]]; then
      echo "$chapter: a link to ${link%%#*}, which is not there"
      wrong=1
    elif [[ $link == *.md#* || $link == "#"* ]] && ! grep -qxF -- "${link#*#}" <(anchors "$file"); then
      echo "$chapter: a link to $link, but $file has no such heading"
      wrong=1
    fi
  done < <(grep -oP '\]\(\K[^)\s:]*[./#][^)\s:]*(?=\))' "$chapter" || true)
done
if [[ $wrong -ne 0 ]] && $check; then
  echo "weave.sh: the texts are not what the sources say; run tutorials/weave.sh" >&2
fi
exit $wrong
