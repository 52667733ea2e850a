# What SAMO gains where the network is slow, and how it shifts the grid: network_lab.sh sources this
# file. First, replicas on all hosts, dense and pruned by 90%. Then a cap on every rank's memory: both
# go on from a checkpoint on the grid with the smallest number of stages that fits under it.
# Wants a machine that does nothing else, 5 minutes. PRUNED replaces the fraction, PLAN the program.
source "$root/tests/benchmarks/training_lab.sh"
pruned=${PRUNED:-0.9} plan=${PLAN:-$root/build/bin/plan}
samo="--prune $pruned --prune-after 1 --samo"

choose_rate
for round in $(seq "$rounds"); do
  compute
  run none
  run samo $samo
  run sparse $samo --sparse-compute
  run quantized --codec quantize:4
  run both $samo --codec quantize:4
done

# Runs to go on with on other grids, of bf16 weights: two updates of each.
begin() {  # begin NAME FLAGS...
  $train_gpt --data "$runs/text" --validation "$runs/little" --vocab bytes $size --batch $batch --steps 50 \
    --warmup 1 --evaluate-every 0 --quiet --dtype bf16 --microbatches 4 --stop-after 2 --out "$runs/$1" "${@:2}"
}
begin dense
begin pruned $samo

# Four ranks: replicas x stages, microbatches of two sequences.
grid() { echo "--stages $1 --data-parallel $((hosts / $1)) --microbatches $((batch * $1 / hosts / 2))"; }
go_on() {  # go_on NAME STAGES TRANSPORT [HOW]: threads, or mpi by on_hosts
  rm -rf "$runs/run"
  ${4-} $train_gpt --resume "$runs/$1" $(grid "$2") --transport "$3" --stop-after $((2 + steps)) --quiet \
    --out "$runs/run" $cap
}
peak() {  # the largest of a rank; of a pruned run without what loading the checkpoint took
  local which=peak_bytes
  ! grep -q peak_bytes_pruned "$runs/run/summary.json" || which=peak_bytes_pruned
  sed -n "/\"$which\":/,/\]/"'s/^ *"total": \([0-9]*\),*$/\1/p' "$runs/run/summary.json" | sort -n | tail -n 1
}

# The cap: half of what dense training needs on one stage.
cap=
go_on dense 1 threads
cap="--memory-cap $(($(peak) / 2))"
declare -A stages peaks
for name in dense pruned; do
  for count in 1 2 4; do
    go_on $name $count threads 2>"$runs/refused" || { grep -q 'out of memory' "$runs/refused"; continue; }
    stages[$name]=$count peaks[$name]=$(peak)
    break
  done
  [[ -n ${stages[$name]:-} ]] || { echo "network_lab.sh: $name fits on no grid under $cap" >&2; exit 1; }
done
for round in $(seq "$rounds"); do
  $train --schedule data --dtype bf16 --batch $((batch / hosts)) --overwrite --out "$runs/alone"
  seconds "$runs/alone/metrics.jsonl" >>"$runs/alone.seconds"
  for name in dense pruned; do
    go_on $name "${stages[$name]}" mpi on_hosts
    note_run "grid_$name"
  done
done

# Tokens a second on four hosts with a core each: what a host needs for its part of the batch while
# the others do nothing is shared out to microbatches and stages, a third of it to forwards.
simulated() {  # simulated NAME STAGES GIGABITS
  local each activation weights
  activation=$((2 * context * 256 * 2))  # bf16
  weights=$(awk -v bytes="$(cat "$runs/grid_$1.bytes")" -v w=$((hosts / $2)) \
    'BEGIN { printf "%.0f", (w > 1 ? bytes * w / (2 * (w - 1)) : 0) }')
  each=$(awk -v s="$(median "$runs/alone.seconds")" -v share=$((batch / hosts / 2 * $2)) 'BEGIN { print s / share }')
  $plan simulate --schedule $([[ $2 == 1 ]] && echo data || echo 1f1b) $(grid "$2") --activation-bytes $activation \
    --weight-bytes "$weights" --forward "$(awk -v s="$each" 'BEGIN { print s / 3 }')" \
    --backward "$(awk -v s="$each" 'BEGIN { print 2 * s / 3 }')" --bandwidth "$(awk -v g="$3" 'BEGIN { print g * 1e9 / 8 }')" \
    --json | sed -n 's/^ *"makespan": \([0-9.e-]*\),*$/\1/p' |
    awk -v tokens=$((batch * context)) '{ printf "%.0f", tokens / $1 }'
}

{
  describe_lab
  head_of_rows 'replicas on all hosts'
  row dense none
  row "SAMO, $pruned pruned" samo
  row "SAMO, $pruned pruned, \`--sparse-compute\`" sparse 'no ideal'
  row 'dense, `--codec quantize:4`' quantized
  row "SAMO, $pruned pruned, \`--codec quantize:4\`" both
  echo
  echo "The same GPT in bf16 over the same links, with at most ${cap#* } bytes of memory per rank, half of what" \
    "dense training on one stage takes. Both runs continue from checkpoints, the pruned one after its pruning, on the grid" \
    "with the smallest number of stages that fits, in microbatches of two sequences." \
    "The hosts share this machine's cores: while one waits in a bubble, others use its core. The simulated hosts have" \
    "a core each; sums do not overlap with computation; the links have the same rate, or 10 Gbit/s:"
  echo
  echo '| state | stages x replicas | bubble by formula | largest peak of a rank, MB | kB sent per rank and update |' \
    'tokens/s | / dense | simulated tokens/s | / dense | simulated tokens/s, 10 Gbit/s | / dense |'
  echo '| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |'
  for name in dense pruned; do
    awk -v name="$name" -v stages="${stages[$name]}" -v hosts="$hosts" -v peak="${peaks[$name]}" -v batch=$batch \
      -v bytes="$(cat "$runs/grid_$name.bytes")" -v seconds="$(median "$runs/grid_$name.seconds")" \
      -v dense="$(median "$runs/grid_dense.seconds")" -v tokens=$((batch * context)) -v pruned="$pruned" \
      -v slow="$(simulated $name "${stages[$name]}" "$(awk -v r="$rate" 'BEGIN { print r / 1000 }')")" \
      -v slow_dense="$(simulated dense "${stages[dense]}" "$(awk -v r="$rate" 'BEGIN { print r / 1000 }')")" \
      -v fast="$(simulated $name "${stages[$name]}" 10)" -v fast_dense="$(simulated dense "${stages[dense]}" 10)" 'BEGIN {
        micros = batch * stages / hosts / 2
        printf "| %s | %d x %d | %.0f%% | %.1f | %.0f | %.0f | %.2f | %.0f | %.2f | %.0f | %.2f |\n",
          name == "dense" ? "dense" : "SAMO, " pruned " pruned", stages, hosts / stages,
          100 * (stages - 1) / (micros + stages - 1), peak / 1e6, bytes / 1e3, tokens / seconds, dense / seconds,
          slow, slow / slow_dense, fast, fast / fast_dense }'
  done
} | tee "$runs/table.md"
mv "$runs/table.md" "$root/tests/benchmarks/results/pruned_lab.md"
