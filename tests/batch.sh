#!/usr/bin/env bash
# Writes a source that compiles several test files at once: batch.sh OUTPUT FILE...
# Headers come first and outside of everything, so the files' own #include lines do nothing; then
# each file stands in a namespace of its own, so two of them can give one name to their helpers.
set -euo pipefail
output=$1
shift
{
  echo '#include "tests/catch.h"'
  grep -h '^#include' "$@" | sort -u
  count=0
  for file; do
    printf '\nnamespace test_file_%d {\n#include "%s"\n}\n' "$((++count))" "$file"
  done
} >"$output"
