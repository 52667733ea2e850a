#!/usr/bin/env bash
# Builds the small project of tests/consumer twice: with what a build of plangrad installs, and with
# plangrad's sources as a part of it, which must leave the project's own settings alone.
#   tests/consumer.sh BUILD    BUILD: a finished build of plangrad
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$(cd "$1" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

expect() {  # expect LINE PROGRAM: what it prints
  local line
  line=$("$2")
  [[ $line == "$1" ]] || { printf 'expected "%s" from %s, got "%s"\n' "$1" "$2" "$line"; exit 1; }
}
configure() {  # configure FOLDER FLAGS...
  cmake -S "$root/tests/consumer" -B "$folder/$1" -G Ninja -DCMAKE_EXPORT_COMPILE_COMMANDS=ON "${@:2}"
}
gradient='y = 54, dy/dx sums up to 40'

echo "== installed"
cmake --install "$build" --prefix "$folder/prefix" --component library >/dev/null
configure installed -DCMAKE_PREFIX_PATH="$folder/prefix"
cmake --build "$folder/installed"
expect "$gradient" "$folder/installed/gradient"
expect '4 ranks; channels hold 0 messages' "$folder/installed/proof"

echo "== as a part"  # parts that take long to compile, and to find, are left out
configure part -DPLANGRAD="$root" -DPLANGRAD_ONEDNN=OFF -DPLANGRAD_MPI=OFF -DPLANGRAD_CUDA=OFF \
  -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=10
cmake --build "$folder/part" --target gradient
expect "$gradient" "$folder/part/gradient"

for of in installed part; do  # no setting of plangrad's is the project's
  if grep -A2 -B2 'consumer/gradient.cpp' "$folder/$of/compile_commands.json" |
    grep -E -- '-march|-W|-O[0-3]|openmp'; then
    echo "$of: flags of plangrad are flags of the project that uses it"
    exit 1
  fi
  grep -qE '^CMAKE_BUILD_TYPE:[A-Z]*=$' "$folder/$of/CMakeCache.txt"
done
! grep -qE '^build (tests_|train_gpt)' "$folder/part/build.ninja" || {
  echo "programs and tests are parts of a project that only uses the libraries"
  exit 1
}
