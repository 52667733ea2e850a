#!/usr/bin/env bash
# Fails where a figure (tutorials/figures/*.svg) has letters smaller than 9 pixels when a text that
# shows it is 800 pixels wide. Figures that share a line of a table share these pixels.
#   tests/letters.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
column=800 least=9
wrong=0

# Prints the file of each figure in the texts, and how many figures its line has.
shown() {
  awk '{ count = 0; rest = $0
      while (match(rest, /\]\([^()]*figures\/[^()\/]*\.svg\)/)) {
        file[++count] = substr(rest, RSTART + 2, RLENGTH - 3)
        sub(/.*figures\//, "tutorials/figures/", file[count])
        rest = substr(rest, RSTART + RLENGTH)
      }
      for (i = 1; i <= count; ++i) print file[i], count }' \
    $(compgen -G '*.md') $(compgen -G 'tutorials/*.md')
}

while read -r file beside; do
  [[ -f $file ]] || continue  # weave.sh complains about links
  smallest=$(grep -oP 'font-size[=:][" ]?\K[0-9.]+' "$file" | sort -n | head -n 1)
  width=$(grep -oPm 1 'viewBox="[-0-9.]+ [-0-9.]+ \K[0-9.]+' "$file")
  awk -v size="$smallest" -v width="$width" -v shown="$((column / beside))" -v least=$least \
    -v file="$file" 'BEGIN {
      if (shown > width) shown = width
      pixels = size * shown / width
      if (pixels >= least) exit
      printf "%s: letters of %.2f pixels where it is %d wide, at least %d; ", file, pixels, shown,
        least
      print "draw it narrower, or alone on its line"
      exit 1 }' || wrong=1
done < <(shown | sort -u)
exit $wrong
