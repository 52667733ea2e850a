#!/usr/bin/env bash
# Compiles each header alone, as a file that includes nothing else would need it.
#   tests/headers.sh [HEADER...]    without one, headers of all folders of code
# CXX chooses the compiler; g++ if it is not set.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Headers that are not for a file of their own, and why.
exempt='
autograd/kernels.h          a list for the inside of classes
cuda/launch/device_gpu.h    for nvcc alone
tutorials/kernels/tma.h     for nvcc alone
'
is_exempt() { grep -q "^$1 " <<<"$exempt"; }

mapfile -t headers < <(printf '%s\n' "$@" | grep . ||
  find autograd nn parallel sparse cuda examples tutorials -name '*.h' | sort)
for name in $(awk '{ print $1 }' <<<"$exempt"); do
  [[ -f $name ]] || { echo "tests/headers.sh: $name is no file any more; take it out"; exit 1; }
done

compiler=(${CXX:-g++} -std=c++20 -fsyntax-only -Wall -Wextra -Werror -I. -fopenmp-simd
  -x c++ -include)
# mpi.h lies in a folder that only MPI's own compiler knows.
! command -v mpicxx >/dev/null || for flag in $(mpicxx -show); do
  [[ $flag != -I* ]] || compiler=("${compiler[0]}" -isystem "${flag#-I}" "${compiler[@]:1}")
done
emulator=(-DCUDA_EMULATOR -Dcuda=cuda_emulated -Icuda/emulator)

lines=$(for header in "${headers[@]}"; do
  is_exempt "$header" || case $header in
    cuda/* | tutorials/*)
      echo "${compiler[*]:0:1} ${emulator[*]} ${compiler[*]:1} $header /dev/null" ;;
    *) echo "${compiler[*]} $header /dev/null" ;;
  esac
done)
xargs -P "$(nproc)" -d '\n' -n 1 bash -c '$1 || { echo "$1 fails"; exit 1; }' - <<<"$lines"
echo "${#headers[@]} headers compile alone"
