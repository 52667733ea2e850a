# What codec_lab.sh and pruned_lab.sh have in common: a GPT that trains over the hosts of
# network_lab.sh. The links' rate is such that the bytes of f32 sums take three quarters of a step: it
# follows from the time that the hosts need to compute a step, each for itself. ROUNDS, STEPS, RATE
# (Mbit/s) and TRAIN_GPT replace what is chosen here.
context=64 batch=32
size="--layers 4 --heads 4 --width 256 --context $context"
rounds=${ROUNDS:-3} steps=${STEPS:-9} rate=${RATE:-}
export OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive  # the hosts share this machine's cores
renice -n -10 $$ >/dev/null  # other programs on this machine wait rather than the hosts
load=$(cut -d ' ' -f 1 /proc/loadavg)

cat "$root"/tutorials/*.md >"$runs/text"
head -c 2000 "$runs/text" >"$runs/little"
train_gpt=${TRAIN_GPT:-$root/build/bin/train_gpt}
train="$train_gpt --data $runs/text --validation $runs/little --vocab bytes $size
  --warmup 1 --steps $steps --evaluate-every 0 --clip 1 --quiet"

median() { sort -g "$1" | awk '{ x[NR] = $1 } END { print (x[int((NR + 1) / 2)] + x[int(NR / 2) + 1]) / 2 }'; }
# Seconds of a step, without the first one, which also warms up.
seconds() { sed -n 's/.*"seconds":\([0-9.e-]*\),"step":\([0-9]*\),.*/\2 \1/p' "$@" |
  awk '$1 > 1 { sum += $2; ++n } END { print sum / n }'; }

compute() {  # as many processes as hosts, each for itself on its part of the batch
  local each
  for each in $(seq "$hosts"); do
    $train --schedule data --batch $((batch / hosts)) --overwrite --out "$runs/alone-$each" &
  done
  wait
  seconds "$runs"/alone-*/metrics.jsonl >>"$runs/compute.seconds"
}

note_run() {  # note_run NAME: seconds and bytes of the run in $runs/run
  seconds "$runs/run/metrics.jsonl" >>"$runs/$1.seconds"
  sed -n 's/.*"bytes_sent":\([0-9]*\),.*/\1/p' "$runs/run/metrics.jsonl" |
    awk -v hosts="$hosts" 'END { print $1 / hosts }' >"$runs/$1.bytes"
}

run() {  # run NAME FLAGS...
  on_hosts $train --transport mpi --schedule data --batch $batch "${@:2}" --overwrite --out "$runs/run"
  note_run "$1"
}

choose_rate() {
  compute
  run none
  rm "$runs/none.seconds"  # at any rate
  [[ -n $rate ]] || rate=$(awk -v seconds="$(median "$runs/compute.seconds")" \
    '{ printf "%.0f", 8e-6 * $1 / (3 * seconds) }' "$runs/none.bytes")
  limit_links "$(awk -v rate="$rate" 'BEGIN { print rate / 1000 }')"
}

# row NAME FILES [no ideal]: a run's bytes and speed beside those of the run "none", and the ideal,
# which is of dense computation.
row() {
  awk -v other="${3-}" -v name="$1" -v seconds="$(median "$runs/$2.seconds")" -v bytes="$(cat "$runs/$2.bytes")" \
    -v compute="$(median "$runs/compute.seconds")" -v none_bytes="$(cat "$runs/none.bytes")" \
    -v none="$(median "$runs/none.seconds")" -v rate="$rate" -v tokens=$((batch * context)) 'BEGIN {
      ideal = compute + 8e-6 * bytes / rate; ideal_none = compute + 8e-6 * none_bytes / rate
      printf "| %s | %.0f | %.2f | %.0f | %.2f | %.0f |", name, bytes / 1e3, none_bytes / bytes,
        tokens / seconds, none / seconds, 1e3 * seconds
      if (other) { print " | | |"; exit }
      printf " %.2f | %.0f%% | %.0f%% |\n", ideal_none / ideal,
        100 * (none / seconds) / (ideal_none / ideal), 100 * ideal / seconds }'
}

describe_lab() {
  echo "Measured on $(date -I) on $(nproc --all | sed 's/$/ cores/; s/^1 cores/1 core/') of $(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1);" \
    "load before: $load."
  echo
  local why=
  [[ -n ${RATE:-} ]] || why=', chosen so that f32 sums take three quarters of an update'
  echo "$hosts hosts, each a network namespace, linked at $rate Mbit/s$why; a GPT (\`$size\`), $batch sequences per update. Computing an update takes" \
    "$(awk '{ printf "%.0f", 1e3 * $1 }' <<<"$(median "$runs/compute.seconds")") ms. The ideal time is that and the time of the bytes" \
    "at the links' rate; efficiency is the ideal time divided by the measured one. Medians of $rounds rounds:"
  echo
}

head_of_rows() {  # head_of_rows FIRST
  echo "| $1 | kB sent per rank and update | compression | tokens/s | speed-up | ms per update |" \
    'ideal speed-up | speed-up / ideal | efficiency |'
  echo '| --- | --- | --- | --- | --- | --- | --- | --- | --- |'
}
