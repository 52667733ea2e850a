# The parts of measure.sh about pruned networks, which sources this file.

pruned() {
  local seeds='1 2 3'
  local gpt='--vocab chars --layers 4 --heads 4 --width 128 --context 64 --batch 12 --steps 2000
    --learning-rate 1e-3 --min-learning-rate 1e-4 --warmup 100 --microbatches 2 --dtype bf16'
  local resnet='--data fashion-mnist --width 8 --batch 64 --steps 937'
  local layout='--data-parallel 2 --stages 2 --evaluate-every 0'
  section() { sed -n "/\"$1\"/,/^  []}]/p" "$runs/run/summary.json"; }
  # Of all ranks; after the pruning, where there was one.
  state() {
    { [[ $1 == 0 ]] && section peak_bytes || section peak_bytes_pruned; } |
      awk -F '[:,]' '/weights|gradients|optimizer|index/ { sum += $2 } END { print sum }'
  }
  # What an update sends in sums in the end: all but what every update sends.
  sums() {
    local all
    all=$(sed -n 's/.*"bytes_sent":\([0-9]*\),.*/\1/p' "$runs/run/metrics.jsonl" | tail -n 1)
    section bytes_sent | awk -F '[:,]' -v all="$all" -v steps="$(value steps)" \
      '/activation|norms/ { others += $2 } END { print all - others / steps }'
  }
  rows() {  # rows QUALITY COMMAND FLAGS...: a line for each run
    local quality=$1 way seed
    for way in 0 '0.5 early-bird' '0.8 early-bird' '0.9 early-bird' '0.5 gradual' '0.8 gradual' '0.9 gradual'; do
      for seed in $seeds; do
        local flags=()
        [[ $way == 0 ]] || flags=(--prune "${way% *}" --prune-method "${way#* }" --samo)
        "${@:2}" $layout --seed "$seed" "${flags[@]}"
        echo "$way $(value "$quality") $(state "$way") $(sums)" | sed 's/^0 /0 - /'
      done
    done
  }
  table() {  # table TITLE FORMAT TIMES
    echo "| pruned | method | $1, mean (lowest to highest of 3 seeds) | state of all ranks, MB |" \
      'state / dense | sums, kB per update | sums / dense |'
    echo '| --- | --- | --- | --- | --- | --- | --- |'
    awk -v times="$3" -v format="| %d%% | %s | $2 ($2 to $2) | %.2f | %.0f%% | %.0f | %.0f%% |\n" '
      { way = $1 " " $2 }
      !n[way]++ { order[++rows] = way; low[way] = 1e9 }
      { sum[way] += $3; state[way] += $4; sent[way] += $5
        if ($3 < low[way]) low[way] = $3
        if ($3 > high[way]) high[way] = $3 }
      END { for (row = 1; row <= rows; ++row) { w = order[row]; d = order[1]; split(w, part, " ")
        printf format, 100 * part[1], part[2], times * sum[w] / n[w], times * low[w], times * high[w],
          state[w] / n[w] / 1e6, 100 * state[w] / state[d], sent[w] / n[w] / 1e3,
          100 * sent[w] / sent[d] } }'
  }
  rows validation_loss train $gpt >"$runs/pruned_gpt.txt"
  rows validation_accuracy "$train_resnet" $resnet --quiet --overwrite --out "$runs/run" >"$runs/pruned_resnet.txt"
  {
    machine
    echo "A GPT (4 layers, width 128) after 2000 updates in bf16 with AdamW, 2 x 2 ranks:"
    echo
    table 'validation loss' %.3f 1 <"$runs/pruned_gpt.txt"
    echo
    echo "A ResNet (18 layers, 8 channels first) after an epoch of Fashion-MNIST with SGD, 2 x 2 ranks:"
    echo
    table accuracy %.1f%% 100 <"$runs/pruned_resnet.txt"
  } >"$runs/measured_pruned.md"
}

pruned_speed() {
  local rounds=5 way
  local size='--data-parallel 2 --stages 2 --microbatches 2 --batch 16 --steps 60 --evaluate-every 0'
  local ways=(dense)
  for way in 0.5 0.8 0.9; do ways+=("$way zeros" "$way samo" "$way sparse"); done
  head -c 20000 "$data" >"$runs/little.txt"
  # Milliseconds of an update, without those before the pruning and shortly after it.
  milliseconds() {
    sed -n 's/.*"seconds":\([0-9.e-]*\),"step":\([0-9]*\)[,}].*/\2 \1/p' "$runs/run/metrics.jsonl" |
      awk '$1 > 15 { sum += $2; ++n } END { print 1e3 * sum / n }'
  }
  take_turns() {  # take_turns NAME COMMAND...
    local round
    for round in $(seq $rounds); do
      for way in "${ways[@]}"; do
        local flags=()
        [[ $1 != ResNet* || $way != *sparse ]] || continue  # convolutions have no sparse products
        [[ $way == dense ]] || flags=(--prune "${way% *}" --prune-after 5)
        [[ $way != *samo && $way != *sparse ]] || flags+=(--samo)
        [[ $way != *sparse ]] || flags+=(--sparse-compute)
        "${@:2}" $size "${flags[@]}"
        echo "${1// /_} $round ${way/ /:} $(milliseconds)"
      done
    done
  }
  {
    for dtype in f32 bf16; do
      for width in 128 256; do
        take_turns "GPT, width $width, $dtype" train --validation "$runs/little.txt" --layers 4 --heads 4 \
          --width $width --context 64 --dtype $dtype
      done
    done
    take_turns 'ResNet, width 8, f32' "$train_resnet" --data fashion-mnist --width 8 --quiet --overwrite \
      --out "$runs/run"
  } >"$runs/pruned_speed.txt"
  {
    machine
    echo "Updates per second of pruned runs, divided by those of a dense run, on 2 x 2 ranks, with 16 sequences of" \
      "64 tokens or 16 images per update; median (lowest to highest) of $rounds rounds of alternating runs:"
    echo
    echo '| network | dense, examples/s | pruned | zeros in dense tensors | `--samo` | `--samo --sparse-compute` |'
    echo '| --- | --- | --- | --- | --- | --- |'
    awk -v rounds=$rounds '
      { ms[$1, $3, $2] = $4; if (!seen[$1]++) order[++networks] = $1 }
      function sort_rounds(x,   i, j, t) {
        for (i = 2; i <= rounds; ++i)
          for (j = i; j > 1 && x[j] < x[j - 1]; --j) { t = x[j]; x[j] = x[j - 1]; x[j - 1] = t }
      }
      function ratio(network, way,   r, x) {
        if (!((network, way, 1) in ms)) return ""
        for (r = 1; r <= rounds; ++r) x[r] = ms[network, "dense", r] / ms[network, way, r]
        sort_rounds(x)
        return sprintf("%.2f (%.2f to %.2f)", x[int((rounds + 1) / 2)], x[1], x[rounds])
      }
      function examples(network,   r, x) {
        for (r = 1; r <= rounds; ++r) x[r] = 16e3 / ms[network, "dense", r]
        sort_rounds(x)
        return sprintf("%.0f", x[int((rounds + 1) / 2)])
      }
      END {
        split("0.5 0.8 0.9", p, " ")
        for (n = 1; n <= networks; ++n) { network = order[n]; name = network; gsub("_", " ", name)
          for (i = 1; i <= 3; ++i)
            printf "| %s | %s | %d%% | %s | %s | %s |\n", name, examples(network), 100 * p[i],
              ratio(network, p[i] ":zeros"), ratio(network, p[i] ":samo"), ratio(network, p[i] ":sparse") } }' \
      "$runs/pruned_speed.txt"
  } >"$runs/measured_pruned_speed.md"
}
