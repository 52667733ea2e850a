#!/usr/bin/env bash
# Writes a text to train on into a file: the King James Bible, 4 MB of English, where Debian's package
# bible-kjv is installed (examples/install_packages.sh --text); elsewhere this project's own chapters
# and sources, 4 MB of prose and C++. Says which, and how long it is:
#   examples/data/make_corpus.sh FILE
set -euo pipefail
file=${1-}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && cd "$(pwd -P)/../.." && pwd)
if [[ $# != 1 || $file == -* ]] || ! (mkdir -p "$(dirname "$file")" && : >>"$file") 2>&-; then
  echo "make_corpus.sh: expected one file that can be written, got '$*': make_corpus.sh FILE" >&2
  exit 2
fi

# A verse a line, without its number.
verses() { bible -f Genesis1:1-Revelation22:21 </dev/null 2>/dev/null | sed 's/^[^ ]* //'; }

# By checksum the files come in an order that mixes prose and code, so that the last tenth, on which
# train_gpt validates, is like the rest.
own_files() (
  cd "$root"
  (find README.md tutorials autograd nn parallel sparse cuda examples tests -type f \
    \( -name '*.md' -o -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) \
    -exec cksum {} + 2>/dev/null || true) | sort -n | while read -r _ _ name; do
    cat "$name"
  done
)

if command -v bible >/dev/null && verses >"$file" && [[ $(wc -l <"$file") -gt 30000 ]]; then
  what="the King James Bible"
else
  own_files >"$file"
  what="this project's chapters and sources; for English, install Debian's package bible-kjv"
fi
echo "$file: $(wc -c <"$file") characters, $what"
