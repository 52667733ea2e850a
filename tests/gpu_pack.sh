#!/usr/bin/env bash
# Builds what tests/gpu.sh runs, for GPUs of one architecture, and packs it for another machine:
#   gpu_pack.sh --pack FILE.tar.gz   without MPI, NCCL and oneDNN; there: tar xzf FILE.tar.gz, then
#                                    gpu/tests/gpu.sh --no-build --bin gpu/bin; it needs glibc and
#                                    libstdc++ as new as here, and cuBLAS of this CUDA release
#   gpu_pack.sh --build DIR          builds in DIR, with all that this machine has, and packs nothing
#   --architecture N                 compute capability without its point (default: 90)
#   --limit MB                       refuses to make a larger archive (default: 60)
#   --emulator                       packs the emulator's programs of an ordinary build, in --bin DIR
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
pack="" build="" bin="" architecture=90 limit=60 device=cuda
fail() { echo "gpu_pack.sh: $*" >&2; exit 2; }
while [[ $# -gt 0 ]]; do
  case $1 in
    --pack | --build | --bin | --architecture | --limit)
      [[ -n ${2-} ]] || fail "$1 needs a value"
      printf -v "${1#--}" %s "$2"
      shift ;;
    --emulator) device=emulator ;;
    -h | --help) sed -n '2,9s/^# //p' "$0"; exit 0 ;;
    *) fail "unknown argument '$1'; see gpu_pack.sh --help" ;;
  esac
  shift
done
[[ -n $pack$build ]] || fail "give --pack FILE or --build DIR"
[[ $limit =~ ^[0-9]+$ ]] || fail "--limit $limit: expected a whole number of megabytes"
programs=(tests_gpu train_gpt sample_gpt benchmarks/{ladder_gpu,gpu_kernels,gpu_training})
[[ $device == cuda ]] ||
  programs=(tests_cuda tests_examples train_gpt train_resnet sample_gpt checkpoint
    benchmarks/{ladder,gpu_kernels,gpu_training})

build_in() {  # build_in FOLDER SETTING...
  local ninja=()
  command -v ninja >/dev/null && [[ ! -e $1/CMakeCache.txt ]] && ninja=(-G Ninja)
  cmake -S "$root" -B "$1" "${ninja[@]}" -DCMAKE_BUILD_TYPE=Release -DPLANGRAD_CUDA=ON \
    -DPLANGRAD_TESTS=ON -DPLANGRAD_CUDA_ARCHITECTURES="$architecture-real" \
    -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=10 "${@:2}"
  cmake --build "$1" -j "$(nproc --all)" --target "${programs[@]##*/}"
}
if [[ -n $build && -z $pack ]]; then
  build_in "$build"
  exit
fi
if [[ $device == cuda ]]; then
  # Another processor may be older than this one; it has AVX2.
  build_in "$root/build-packed" -DPLANGRAD_NATIVE=OFF -DCMAKE_CXX_FLAGS=-march=x86-64-v3 \
    -DPLANGRAD_MPI=OFF -DPLANGRAD_NCCL=OFF -DPLANGRAD_ONEDNN=OFF
  bin=$root/build-packed/bin
fi

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
to=$folder/gpu
mkdir -p "$to"/bin/{lib,benchmarks} "$to"/tests/{benchmarks,references}
for program in "${programs[@]}"; do
  [[ -x $bin/$program ]] || fail "$bin/$program is not there; build it first"
done
for program in "${programs[@]}"; do
  strip -o "$to/bin/$program" "$bin/$program"
done
{ ldd "$to"/bin/* "$to"/bin/benchmarks/* 2>/dev/null || true; } |
  awk '$3 ~ /lib(fmt|pcre2-8|z|gomp)\.so/ {print $3}' | sort -u | xargs -r cp -t "$to/bin/lib"
cp "$root"/tests/gpu.sh "$root"/tests/gpu_pack.sh "$to/tests/"
cp "$root"/tests/benchmarks/gpu_{pytorch,kernel_table}.py "$to/tests/benchmarks/"
cp "$root/tests/references/gpt_model.py" "$to/tests/references/"
git -C "$root" describe --always --dirty >"$to/commit" 2>/dev/null || true
tar -czf "$folder/pack.tar.gz" -C "$folder" gpu
size=$(($(stat -c %s "$folder/pack.tar.gz") / 1000000 + 1))
[[ $size -le $limit ]] || fail "the archive has $size MB, more than the $limit MB of --limit;" \
  "pack fewer programs, or give a higher --limit"
mkdir -p "$(dirname "$pack")"
mv "$folder/pack.tar.gz" "$pack"
echo "$pack has $size MB. On the other machine: tar xzf $(basename "$pack")," \
  "then gpu/tests/gpu.sh --no-build --bin gpu/bin"
