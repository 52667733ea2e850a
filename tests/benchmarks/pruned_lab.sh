# What SAMO gains where the network is slow, and how it shifts the grid: network_lab.sh sources this
# file. First, replicas on all hosts, dense and pruned by 90%. Then a cap on every rank's memory: both
# go on from a checkpoint on the grid with the smallest number of stages that fits under it.
# Wants a machine that does nothing else, 5 minutes. PRUNED replaces the fraction.
source "$root/tests/benchmarks/training_lab.sh"
pruned=${PRUNED:-0.9}
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
peak() {  # the largest of a rank
  sed -n '/"peak_bytes":/,/\]/s/^ *"total": \([0-9]*\),*$/\1/p' "$runs/run/summary.json" | sort -n | tail -n 1
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
  for name in dense pruned; do
    go_on $name "${stages[$name]}" mpi on_hosts
    note_run "grid_$name"
  done
done

{
  describe_lab
  head_of_rows 'replicas on all hosts'
  row dense none
  row "SAMO, $pruned pruned" samo
  row "SAMO, $pruned pruned, \`--sparse-compute\`" sparse
  row 'dense, `--codec quantize:4`' quantized
  row "SAMO, $pruned pruned, \`--codec quantize:4\`" both
  echo
  echo "The same GPT in bf16 over the same links, with at most ${cap#* } bytes of memory for a rank, half of what" \
    "dense training on one stage takes; the smallest number of stages that fits. Microbatches of two sequences:"
  echo
  echo '| state | stages x replicas | largest peak of a rank, MB | kB sent by a rank a step | tokens/s | speed-up |'
  echo '| --- | --- | --- | --- | --- | --- |'
  for name in dense pruned; do
    awk -v name="$name" -v stages="${stages[$name]}" -v hosts="$hosts" -v peak="${peaks[$name]}" \
      -v bytes="$(cat "$runs/grid_$name.bytes")" -v seconds="$(median "$runs/grid_$name.seconds")" \
      -v dense="$(median "$runs/grid_dense.seconds")" -v tokens=$((batch * context)) -v pruned="$pruned" 'BEGIN {
        printf "| %s | %d x %d | %.1f | %.0f | %.0f | %.2f |\n",
          name == "dense" ? "dense" : "SAMO, " pruned " pruned", stages, hosts / stages, peak / 1e6,
          bytes / 1e3, tokens / seconds, dense / seconds }'
  done
} | tee "$runs/table.md"
mv "$runs/table.md" "$root/tests/benchmarks/results/pruned_lab.md"
