#!/usr/bin/env bash
# Installs the packages that this machine lacks: those of the programs; with --tests also those of the
# tests, the benchmarks and the format check; with --clang also clang and its sanitizers; with --ci that
# and ccache, clang-tidy, Node, Chromium and notebooks, which only .ci/run needs; with --images
# Fashion-MNIST, 30 MB for train_resnet; with --text the King James Bible, 3 MB for the quickstart.
# Prints nothing if nothing is missing.
# Uses apt-get on Debian and Ubuntu, with sudo when not root; elsewhere it lists what to install and stops.
set -euo pipefail

usage="usage: install_packages.sh [--tests] [--clang] [--ci] [--images] [--text]"
# Debian's name of each package, and how we know that it is there: a command, a header or a folder.
needs="
g++                 c++
cmake               cmake
ninja-build         ninja
libdnnl-dev         <dnnl.hpp>
nlohmann-json3-dev  <nlohmann/json.hpp>
libcli11-dev        <CLI/CLI.hpp>
libfmt-dev          <fmt/format.h>
libpcre2-dev        <pcre2.h>
zlib1g-dev          <zlib.h>"
needs_of_tests="
git                 git
clang-format        clang-format
catch2              <catch2/catch_test_macros.hpp>|<catch2/catch.hpp>
libbenchmark-dev    <benchmark/benchmark.h>
libopenmpi-dev      mpicxx
openmpi-bin         mpirun
python3             python3"
needs_of_clang="
clang-19            clang++-19
libclang-rt-19-dev  /usr/lib/llvm-19/lib/clang/19/include/sanitizer
libomp-19-dev       /usr/lib/llvm-19/share/gdb/python/ompd"
needs_of_ci="$needs_of_clang
ccache              ccache
clang-tidy-19       clang-tidy-19
nodejs              node
chromium            chromium
python3-nbconvert   /usr/lib/python3/dist-packages/nbconvert
python3-ipykernel   /usr/lib/python3/dist-packages/ipykernel
python3-pandas      /usr/lib/python3/dist-packages/pandas"
images="
dataset-fashion-mnist  /usr/share/datasets/fashion-mnist"
text="
bible-kjv           bible"

for argument; do
  case $argument in
    --tests) needs+=$needs_of_tests ;;
    --clang) needs+=$needs_of_clang ;;
    --ci) needs+=$needs_of_ci ;;
    --images) needs+=$images ;;
    --text) needs+=$text ;;
    -h | --help) echo "$usage"; sed -n '2,9s/^# //p' "$0"; exit 0 ;;
    *) echo "install_packages.sh: unknown argument '$argument'; $usage" >&2; exit 2 ;;
  esac
done

have() {  # have PROBE: is one of the alternatives there?
  local probe
  for probe in ${1//|/ }; do
    case $probe in
      "<"*)  # pcre2.h must be told the width of a character
        echo "#include $probe" | c++ -std=c++20 -DPCRE2_CODE_UNIT_WIDTH=8 -M -x c++ - \
          >/dev/null 2>&1 && return 0 ;;
      /*) [[ -d $probe ]] && return 0 ;;
      *) command -v "$probe" >/dev/null && return 0 ;;
    esac
  done
  return 1
}

missing=()
while read -r package probe; do
  [[ -z $package ]] || have "$probe" || missing+=("$package")
done <<<"$needs"
[[ ${#missing[@]} -gt 0 ]] || exit 0

install=(env DEBIAN_FRONTEND=noninteractive TZ=Etc/UTC apt-get -qq -o Dpkg::Use-Pty=0)
if [[ $(id -u) -ne 0 ]]; then
  install=(sudo "${install[@]}")
fi
if ! command -v apt-get >/dev/null || ! command -v "${install[0]}" >/dev/null; then
  echo "install_packages.sh: cannot install packages here (that takes apt-get, and sudo or root)." >&2
  echo "Please install what Debian calls: ${missing[*]}" >&2
  exit 1
fi
echo "Installing, by apt-get as root: ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! { "${install[@]}" update && "${install[@]}" install -y --no-install-recommends "${missing[@]}"; } \
  </dev/null >"$log" 2>&1; then
  cat "$log" >&2
  echo "install_packages.sh: apt-get failed (its messages are above); is there a network?" >&2
  exit 1
fi
