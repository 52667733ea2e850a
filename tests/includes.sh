#!/usr/bin/env bash
# Fails where a folder of code, or a room of one, includes what it must not know; where an arrow that
# is allowed is used no more; where files lie outside the rooms; where chapter 00 leaves a room out;
# where the main header of a room leaves out another one; or where a comment names no file.
#   tests/includes.sh           checks
#   tests/includes.sh --graph   prints each room with the rooms that it includes, and counts
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Who may include whom.
arrows=$(grep -v '^#' tests/rooms.txt)

# The room of a file: two folders deep where its folder has rooms, else its first folder. What
# stands directly in cuda/ is its door, which cuda/emulator and cuda/gpu give their own sides of.
includes() {  # lines: FILE LINE INCLUDED
  grep -rnE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' --include=*.h --include=*.cpp \
    --include=*.cu --include=*.cuh "$@" | sed -E 's/^([^:]*):([0-9]*):.*"(.*)".*$/\1 \2 \3/'
}
folders=()
for folder in autograd nn parallel sparse cuda tutorials; do
  [[ ! -d $folder ]] || folders+=("$folder")
done

includes "${folders[@]}" | sort -u | awk -v arrows="$arrows" -v graph="${1:-}" '
  function room(path, parts, n, folder) {
    n = split(path, parts, "/")
    folder = parts[1] "/" parts[2]
    if (parts[1] == "cuda" && (n == 2 || parts[2] == "gpu" || path == "cuda/emulator/devices.cpp"))
      return "cuda"
    return n > 2 && (folder in place || !(parts[1] in place)) ? folder : parts[1]
  }
  BEGIN {
    rooms = split(arrows, lines, "\n")
    for (i = 1; i <= rooms; ++i) {
      n = split(lines[i], words, " ")
      if (n == 0) continue
      place[words[1]] = ++count
      name[count] = words[1]
      for (j = 2; j <= n; ++j) {
        allowed[words[1], words[j]] = 1
        if (!(words[j] in place)) {
          print "tests/rooms.txt: " words[1] " stands before " words[j] ", which it includes"
          wrong = 1
        }
      }
    }
  }
  {
    from = room($1)
    to = room($3)
    if (!($3 in exists)) exists[$3] = system("test -f " $3) == 0
    if (!exists[$3]) {
      print $1 ":" $2 ": \"" $3 "\" is no file; write includes from the root of the sources"
      wrong = 1
    } else if (!(from in place)) {
      print $1 ":" $2 ": " from " is no room of tests/rooms.txt"
      wrong = 1
    } else if (from != to && !((from, to) in allowed)) {
      print $1 ":" $2 ": " from " may not include " $3 "; see tests/rooms.txt"
      wrong = 1
    } else if (from != to && !used[from, to]++) {
      shown[from] = shown[from] " " to
      if (from ~ /^parallel\// && to ~ /^parallel\//) ++inner
    }
    seen[from] = 1
  }
  END {
    for (pair in allowed) {
      split(pair, ends, SUBSEP)
      if (seen[ends[1]] && !used[ends[1], ends[2]]) {
        print "tests/rooms.txt: " ends[1] " no longer includes " ends[2] "; take it out"
        wrong = 1
      }
    }
    if (graph == "--graph") {
      for (i = 1; i <= count; ++i) {
        printf "%-22s%s\n", name[i], shown[name[i]]
        parallel += name[i] ~ /^parallel\//
      }
      printf "parallel/: %d rooms, %d arrows between them, none of them back up\n", parallel, inner
    }
    exit wrong
  }'
while read -r room _; do
  [[ -z $room || ! -f tutorials/00-map.md ]] || grep -q "^| \`$room\` |" tutorials/00-map.md ||
    { echo "$room has no line in the table of rooms of tutorials/00-map.md"; exit 1; }
  main=$(grep -ls "^// The room $room " "$room"/*.h) || continue
  for header in "$room"/*.h; do
    [[ $header == "$main" ]] || grep -qw "${header##*/}" <(sed '/^#/q' "$main") ||
      { echo "$main does not name ${header##*/}, which its room has"; exit 1; }
  done
done <<<"$arrows"
rooms=$(awk '/^parallel/ { sub("parallel/", "", $1); print $1 }' <<<"$arrows")
named=$(grep -s '^- `parallel/`: rooms' README.md | sed 's/[^:]*:[^:]*: //; s/;.*//; s/[`,]//g') || true
[[ ! -f README.md || $(xargs <<<"$rooms") == "$named" ]] ||
  { echo "README.md names the rooms of parallel/ otherwise than tests/rooms.txt: $named"; exit 1; }
for folder in nn parallel; do
  if [[ -d $folder ]] && flat=$(find "$folder" -maxdepth 1 -type f) && [[ -n $flat ]]; then
    echo "$folder has rooms, and these files stand outside: $flat"
    exit 1
  fi
done
# Files that comments name: NAME.h, PATH/NAME.cpp, NAME_test; not what has a star, as in draw_*.cpp.
find "${folders[@]}" tests $(compgen -G examples || true) -type f | perl -e '
  chomp(my @files = <STDIN>);
  my (%known, $wrong);
  for (@files) { for (my $end = $_;; ) { $known{$end} = 1; $end =~ s|^[^/]*/|| or last } }
  @ARGV = grep /\.(h|cpp|cu)$/, @files;
  while (<>) {
    my ($comment) = m|^[^"]*?//(.*)| or next;
    for ($comment =~ m{(?<![\w/.*<])[\w/]+(?:\.(?:h|cpp|cu)|_test)\b(?![.:]\w)}g) {
      $wrong = print "$ARGV:$.: there is no file $_\n" if !$known{$_} && !$known{"$_.cpp"};
    }
  } continue { close ARGV if eof }
  exit $wrong'
