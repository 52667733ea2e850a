# What codecs gain where the network is slow: a GPT trains over the hosts of network_lab.sh, which
# sources this file. The links' rate is such that the bytes of f32 sums take three quarters of a
# step: it follows from the time that the hosts need to compute a step, each for itself. Codecs take
# turns, `rounds` times; figures are medians. PyTorch's DistributedDataParallel trains an equal GPT,
# if the Python named by PYTORCH (python3) has it. Wants a machine that does nothing else, 5 minutes.
# ROUNDS, STEPS, RATE (Mbit/s), CODECS and TRAIN_GPT replace what is chosen here.
read -ra codecs <<<"${CODECS:-none bf16 quantize:8 quantize:4 quantize:2 adaptive:1024:3 topk:0.01 lowrank:4}"
context=64 batch=32
size="--layers 4 --heads 4 --width 256 --context $context"
rounds=${ROUNDS:-3} steps=${STEPS:-9} pytorch=${PYTORCH:-python3} rate=${RATE:-}
export OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive  # the hosts share this machine's cores
renice -n -10 $$ >/dev/null  # other programs on this machine wait rather than the hosts
load=$(cut -d ' ' -f 1 /proc/loadavg)

cat "$root"/tutorials/*.md >"$runs/text"
head -c 2000 "$runs/text" >"$runs/little"
train="${TRAIN_GPT:-$root/build/bin/train_gpt} --data $runs/text --validation $runs/little --vocab bytes $size
  --schedule data --warmup 1 --steps $steps --evaluate-every 0 --clip 1 --quiet"

median() { sort -g "$1" | awk '{ x[NR] = $1 } END { print (x[int((NR + 1) / 2)] + x[int(NR / 2) + 1]) / 2 }'; }
# Seconds of a step, without the first one, which also warms up.
seconds() { sed -n 's/.*"seconds":\([0-9.e-]*\),"step":\([0-9]*\),.*/\2 \1/p' "$@" |
  awk '$1 > 1 { sum += $2; ++n } END { print sum / n }'; }

compute() {  # as many processes as hosts, each for itself on its part of the batch
  local each
  for each in $(seq "$hosts"); do
    $train --batch $((batch / hosts)) --out "$runs/alone-$each" &
  done
  wait
  seconds "$runs"/alone-*/metrics.jsonl >>"$runs/compute.seconds"
}

run() {  # run CODEC
  on_hosts $train --transport mpi --batch $batch --codec "$1" --out "$runs/run"
  seconds "$runs/run/metrics.jsonl" >>"$runs/$1.seconds"
  sed -n 's/.*"bytes_sent":\([0-9]*\),.*/\1/p' "$runs/run/metrics.jsonl" |
    awk -v hosts="$hosts" 'END { print $1 / hosts }' >"$runs/$1.bytes"
}

run_pytorch() {
  on_hosts env MASTER_ADDR=10.77.0.1 MASTER_PORT=29500 GLOO_SOCKET_IFNAME=eth0 "$pytorch" \
    "$root/tests/benchmarks/ddp_gloo.py" $size --vocabulary 256 --batch $batch --steps $((steps - 1)) >"$runs/line"
  sed -n 's/.*"seconds": \([0-9.e-]*\),.*/\1/p' "$runs/line" >>"$runs/pytorch.seconds"
  sed -n 's/.*"bytes": \([0-9]*\),.*/\1/p' "$runs/line" >"$runs/pytorch.bytes"
}

compute
run none
rm "$runs/none.seconds"  # at any rate
[[ -n $rate ]] || rate=$(awk -v seconds="$(median "$runs/compute.seconds")" \
  '{ printf "%.0f", 8e-6 * $1 / (3 * seconds) }' "$runs/none.bytes")
limit_links "$(awk -v rate="$rate" 'BEGIN { print rate / 1000 }')"
has_pytorch=
! "$pytorch" -c 'import torch.distributed as d; assert d.is_gloo_available()' 2>/dev/null || has_pytorch=yes
for round in $(seq "$rounds"); do
  compute
  for codec in "${codecs[@]}"; do run "$codec"; done
  [[ -z $has_pytorch ]] || run_pytorch
done

row() {  # row NAME FILES
  awk -v name="$1" -v seconds="$(median "$runs/$2.seconds")" -v bytes="$(cat "$runs/$2.bytes")" \
    -v compute="$(median "$runs/compute.seconds")" -v none_bytes="$(cat "$runs/none.bytes")" \
    -v none="$(median "$runs/none.seconds")" -v rate="$rate" -v tokens=$((batch * context)) 'BEGIN {
      ideal = compute + 8e-6 * bytes / rate; ideal_none = compute + 8e-6 * none_bytes / rate
      printf "| %s | %.0f | %.2f | %.0f | %.2f | %.0f | %.2f | %.0f%% | %.0f%% |\n", name,
        bytes / 1e3, none_bytes / bytes, tokens / seconds, none / seconds, 1e3 * seconds,
        ideal_none / ideal, 100 * (none / seconds) / (ideal_none / ideal), 100 * ideal / seconds }'
}

{
  machine=$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1)
  echo "Measured on $(nproc --all) cores of $machine; load before: $load."
  echo
  echo "$hosts hosts, each a network namespace, joined at $rate Mbit/s, at which the bytes of f32 sums are to" \
    "take three quarters of a step; a GPT (\`$size\`), $batch sequences a step. A step's computation takes" \
    "$(awk '{ printf "%.0f", 1e3 * $1 }' <<<"$(median "$runs/compute.seconds")") ms; ideal is that and the bytes" \
    "at the links' rate. Medians of $rounds rounds:"
  echo
  echo '| codec | kB sent by a rank a step | times fewer | tokens/s | speed-up | ms a step |' \
    'ideal speed-up | of it reached | ideal time / time |'
  echo '| --- | --- | --- | --- | --- | --- | --- | --- | --- |'
  for codec in "${codecs[@]}"; do row "\`$codec\`" "$codec"; done
  if [[ -n $has_pytorch ]]; then
    version=$(sed -n 's/.*"torch": "\([^"]*\)".*/\1/p' "$runs/line")
    row "PyTorch $version, DistributedDataParallel over gloo" pytorch
  else
    echo "| PyTorch: not there | | | | | | | | |"
  fi
} | tee "$runs/table.md"
mv "$runs/table.md" "$root/tests/benchmarks/results/codec_lab.md"
