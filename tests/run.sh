#!/usr/bin/env bash
# Installs what is missing, builds, and runs every test: run.sh [--werror] [PRESET...]
# Presets: release (the default) debug asan tsan (see CMakePresets.json); all: release, asan and tsan.
# Benchmarks are built with `all`, or where a test runs them.
# Stops at the first preset that fails; otherwise ctest's summary is the last thing it prints.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

settings=(-DPARAGRAD_TESTS=ON)
presets=()
all=
for argument; do
  case $argument in
    --werror) settings+=(-DPARAGRAD_WERROR=ON) ;;
    -h | --help) sed -n '2,5s/^# //p' "$0"; exit 0 ;;
    release | debug | asan | tsan) presets+=("$argument") ;;
    all) presets+=(release asan tsan) all=yes ;;
    *) echo "run.sh: unknown argument '$argument'; presets are release debug asan tsan, or all" >&2
       exit 2 ;;
  esac
done
[[ ${#presets[@]} -gt 0 ]] || presets=(release)

examples/install_packages.sh --tests
for preset in "${presets[@]}"; do
  trap 'printf "\nrun.sh: FAILED with preset %s; again: tests/run.sh %s\n" "$preset" "$preset" >&2' ERR
  printf '\n== %s: configure\n' "$preset"
  cmake --preset "$preset" "${settings[@]}"
  printf '\n== %s: build\n' "$preset"
  cmake --build --preset "$preset" -j "$(nproc)" --target tested
  printf '\n== %s: test\n' "$preset"
  ctest --preset "$preset" -j 2
  [[ $all && $preset == release ]] || continue
  printf '\n== release: benchmarks that no test runs\n'
  cmake --build --preset release -j "$(nproc)"
done
