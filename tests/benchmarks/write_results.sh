#!/usr/bin/env bash
# Measures what RESULTS.md and the chapters show, writes it to tests/benchmarks/results/, then weaves.
#   write_results.sh [--text FILE] PART...
# Parts: step operations shared engine pretended planned backward_parts codecs sparse all_reduce network_lab
# codec_lab demo counted PYTHON
# FILE is tinyshakespeare (examples/data/download.sh fetches it); PYTHON is a Python with a PyTorch to compare with.
# Wants a release build and a machine that does nothing else; all parts take over half an hour.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
results=$root/tests/benchmarks/results
bin=$root/build/bin

corpus=$root/examples/data/tinyshakespeare.txt
if [[ ${1-} == --text ]]; then
  corpus=$2
  shift 2
fi
[[ -x $bin/benchmarks/train_step ]] || {
  echo "write_results.sh: no release build; run cmake --preset release && cmake --build --preset release" >&2
  exit 1
}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

processor() {
  local name vectors
  name=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
  for vectors in avx512_bf16:AVX512-BF16 avx512f:AVX-512 avx2:AVX2; do
    ! grep -q "${vectors%:*}" /proc/cpuinfo || break
  done
  echo "$name with ${vectors#*:}"
}
machine() {
  printf 'Measured on %s on %s of %s, g++ %s; load before: %s.\n\n' "$(date -I)" \
    "$(nproc | sed 's/$/ cores/; s/^1 cores/1 core/')" "$(processor)" "$("${CXX:-g++}" -dumpfullversion)" "$load"
}
load=$(cut -d ' ' -f 1 /proc/loadavg)

# The file of a result: a name that another processor's result has gets this processor's beside it.
file_of() {
  local file=$results/$1.md
  if [[ -f $file ]] && ! head -n 1 "$file" | grep -qF " of $(processor),"; then
    file=$results/$1_$(processor | tr ' A-Z' '_a-z' | tr -cd 'a-z0-9_').md
  fi
  echo "$file"
}

demo() {
  echo "| seed | validation loss | seconds of training | tokens/s |"
  echo "| --- | --- | --- | --- |"
  for seed in 1337 1 2; do
    "$bin/train_gpt" --data "$corpus" --vocab chars --layers 4 --heads 4 --width 128 --context 64 \
      --batch 12 --steps 2000 --learning-rate 1e-3 --min-learning-rate 1e-4 --warmup 100 \
      --seed "$seed" --out "$out/$seed" --quiet
    figure() { sed -n "s/^  \"$1\": \([0-9.]*\),*$/\1/p" "$out/$seed/summary.json"; }
    printf '| %s | %.3f | %.1f | %.0f |\n' "$seed" "$(figure validation_loss)" "$(figure seconds)" \
      "$(figure tokens_per_second)"
  done
}

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
all_reduce() {
  mpirun --oversubscribe -n 2 "$bin/benchmarks/all_reduce"
  mpirun --oversubscribe -n 4 "$bin/benchmarks/all_reduce" | tail -n +3
}
network_lab() {
  echo "Four hosts, each a network namespace on this machine, joined at 1 Gbit/s; the bound 2(N-1)/N * bytes / rate is 805 ms:"
  echo
  "$root/tests/benchmarks/network_lab.sh" "$bin/benchmarks/all_reduce" --gigabits 1 --smallest 67108864 | grep '^|'
}

# measure NAME COMMAND...: what the command prints, with the machine, becomes results/NAME.md.
measure() {
  local name=$1
  shift
  echo "== $name" >&2
  { machine; "$@"; } | tee "$out/$name.md" >&2
  mv "$out/$name.md" "$(file_of "$name")"
}

for part; do
  case $part in
    step) measure train_step "$bin/benchmarks/train_step" ;;
    operations) measure operations "$bin/benchmarks/operations" ;;
    shared) measure shared_core "$root/tests/benchmarks/shared_core.sh" ;;
    engine) measure engine "$bin/benchmarks/engine" ;;
    pretended) measure pretended "$bin/benchmarks/pretended" ;;
    planned) measure planned_runs "$root/tests/benchmarks/planned_runs.py" ;;
    backward_parts) measure backward_parts "$bin/benchmarks/backward_parts" ;;
    codecs) measure codecs "$bin/benchmarks/codecs" ;;
    sparse) measure sparse_matmul "$bin/benchmarks/sparse_matmul" ;;
    all_reduce) measure all_reduce all_reduce ;;
    network_lab) measure network_lab network_lab ;;
    codec_lab) "$root/tests/benchmarks/network_lab.sh" codec ;;  # PYTORCH names the Python to compare with
    demo) measure demo demo ;;
    counted)  # no times, so no machine
      "$bin/benchmarks/counted_step" --before "$results/counted_step_before.json" >"$results/counted_step.md"
      ;;
    *)
      version=$("$part" -c 'import torch; print(torch.__version__.split("+")[0])')
      measure "against_pytorch_$version" "$part" "$root/tests/benchmarks/against_pytorch.py" --steps 10
      ;;
  esac
done

"$root/tutorials/weave.sh"
