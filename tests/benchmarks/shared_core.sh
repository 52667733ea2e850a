#!/usr/bin/env bash
# Speed of a training step while another program has one of the cores: a share of its speed alone,
# in alternating runs. A step whose threads wait for each other without sleeping, or share out work
# beforehand, loses more than the core that it lost.
#   shared_core.sh [--size SIZE] [BINARY...]    SIZE: small or larger; train_step of some builds
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
size=small
if [[ ${1-} == --size ]]; then
  size=$2
  shift 2
fi
binaries=("$@")
[[ $# -gt 0 ]] || binaries=("$root/build/bin/benchmarks/train_step")
rounds=5

busy=
trap '[[ -z $busy ]] || kill "$busy"' EXIT
begin_busy() {
  taskset -c "$(($(nproc) - 1))" bash -c 'while :; do :; done' &
  busy=$!
}
end_busy() {
  kill "$busy"
  wait "$busy" 2>/dev/null || true
  busy=
}
rate() {  # tokens per second of a few steps
  "$1" --size "$size" --dtype f32 --steps 10 --json | sed 's/.*"tokens_per_second":\([0-9.]*\).*/\1/'
}
median() { sort -n | sed -n "$(((rounds + 1) / 2))p"; }

name_of() {  # the folder of a binary's checkout
  [[ $1 != "$root"/* ]] || { echo this; return; }
  basename "${1%/build/bin/*}"
}

echo "The $size GPT's step in f32 with $(nproc) threads, while a loop has one of $(nproc) cores; medians of $rounds rounds:"
echo
echo "| build | alone, tokens/s | beside the loop | ratio |"
echo "| --- | --- | --- | --- |"
for binary in "${binaries[@]}"; do
  alone='' beside='' ratios=''
  for ((round = 0; round < rounds; ++round)); do
    a=$(rate "$binary")
    begin_busy
    b=$(rate "$binary")
    end_busy
    alone+="$a"$'\n' beside+="$b"$'\n'
    ratios+=$(awk -v a="$a" -v b="$b" 'BEGIN { print b / a }')$'\n'
  done
  printf '| %s | %.0f | %.0f | %.2f |\n' "$(name_of "$binary")" \
    "$(printf %s "$alone" | median)" "$(printf %s "$beside" | median)" "$(printf %s "$ratios" | median)"
done
