#!/usr/bin/env bash
# Installs what is missing, builds, and runs every test: run.sh [--werror] [PRESET...]
# Presets: release (the default) debug asan tsan (see CMakePresets.json); all: release, asan and tsan.
# With `all` only, kernels run on the emulator that looks for races (tests with ctest's label
# checked), and benchmarks that no test runs are built. The preset asan is clang's.
# Stops at the first preset that fails; otherwise ctest's summary is the last thing it prints.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

settings=(-DPLANGRAD_TESTS=ON -DPLANGRAD_EMULATOR=ON)
presets=()
packages=(--tests)
all=
for argument; do
  case $argument in
    --werror) settings+=(-DPLANGRAD_WERROR=ON) ;;
    -h | --help) sed -n '2,6s/^# //p' "$0"; exit 0 ;;
    release | debug | asan | tsan) presets+=("$argument") ;;
    all) presets+=(release asan tsan) all=yes ;;
    *) echo "run.sh: unknown argument '$argument'; presets are release debug asan tsan, or all" >&2
       exit 2 ;;
  esac
done
[[ ${#presets[@]} -gt 0 ]] || presets=(release)

[[ ${presets[*]} != *asan* ]] || packages+=(--clang)
examples/install_packages.sh "${packages[@]}"
# Tests write many small files, which a disk makes them wait for: in memory, where there is room.
[[ -n ${TMPDIR:-} || ! -w /dev/shm || $(df -Pk /dev/shm | awk 'END {print $4}') -lt 4000000 ]] ||
  export TMPDIR=/dev/shm
for preset in "${presets[@]}"; do
  trap 'printf "\nrun.sh: FAILED with preset %s; again: tests/run.sh %s\n" "$preset" "$preset" >&2' ERR
  printf '\n== %s: configure\n' "$preset"
  cmake --preset "$preset" "${settings[@]}"
  built=(tested) left_out=() but=
  if [[ $preset == release && $all ]]; then
    built+=(tests_cuda_checked all)
  elif [[ $preset == release ]]; then
    left_out=(-LE checked -E '^tests_cuda_checked_NOT_BUILT')
    but=", but for those of the checked emulator (tests/run.sh all)"
  fi
  printf '\n== %s: build\n' "$preset"
  cmake --build --preset "$preset" -j "$(nproc)" --target "${built[@]}"
  printf '\n== %s: test%s\n' "$preset" "$but"
  ctest --preset "$preset" -j "$(($(nproc) + 1))" "${left_out[@]}"
done
