#!/usr/bin/env bash
# Downloads tinyshakespeare (1.1 MB of plain text) to this script's folder, and checks that it is the
# well-known file of that name.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

file=tinyshakespeare.txt
url=https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt
sha256=86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed

fail() { echo "download.sh: $*" >&2; exit 1; }
right() { [[ -f $1 ]] && echo "$sha256  $1" | sha256sum --check --status; }

if right "$file"; then
  echo "$PWD/$file is already here"
  exit 0
fi
part=$(mktemp "$file.XXXXXX")
trap 'rm -f "$part"' EXIT
if command -v curl >/dev/null; then
  curl --fail --silent --show-error --location --connect-timeout 20 --output "$part" "$url"
elif command -v wget >/dev/null; then
  wget --quiet --timeout=20 --tries=2 --output-document="$part" "$url"
else
  fail "needs curl or wget (Debian: sudo apt-get install curl)"
fi || fail "could not fetch $url; is there a network? Any other text works too: train_gpt --data FILE"
right "$part" || fail "$url is not the expected file (its sha256 is not $sha256); nothing was kept"
chmod 644 "$part"
mv "$part" "$file"
echo "$PWD/$file: $(wc -c <"$file") bytes"
