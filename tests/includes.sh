#!/usr/bin/env bash
# Fails where a folder of code includes from a folder that it must not know.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

declare -A may_include=(
  [autograd]="autograd"
  [nn]="autograd nn"
  [parallel]="autograd nn parallel"
  [sparse]="autograd parallel sparse"
  [cuda]="autograd parallel cuda"  # implements their interfaces; no folder of this list includes it
)

wrong=0
for folder in "${!may_include[@]}"; do
  [[ -d $folder ]] || continue
  while IFS=: read -r file line include; do
    path=${include#*\"}
    path=${path%%\"*}
    if [[ ! -f $path ]]; then
      echo "$file:$line: \"$path\" is no file; write includes from the root of the sources"
      wrong=1
    elif [[ " ${may_include[$folder]} " != *" ${path%%/*} "* ]]; then
      echo "$file:$line: $folder may include ${may_include[$folder]}, but not $path"
      wrong=1
    fi
  done < <(grep -rnE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' "$folder" \
    --include=*.h --include=*.cpp --include=*.cu --include=*.cuh || true)
done
exit $wrong
