#!/usr/bin/env bash
# Writes what the chapters quote of training runs on this machine into figures/measured_*.md:
#   measure.sh DATA [PART...]     DATA is a text, as examples/data/download.sh fetches one; parts:
#   lost_rank   kills one of four processes, and keeps the reports of the others (needs MPI)
#   elastic     a run on four threads that loses ranks, and takes one back; what it prints
#   elastic_lab a run of eight processes of which one is killed every 20 seconds (half an hour)
#   schedules   losses and weights in memory of every schedule on four stages
#   longer      the losses of some schedules after more updates
#   drift       the losses of one, two and many versions of the weights on four stages, over three
#               seeds, each schedule at its best learning rate of six (twenty minutes)
#   bits        the loss of the same run on one rank, on four stages, and on two replicas
#   bubbles     the bubble by formula, simulated from measured costs, and measured, on two stages
#   shards      memory of ZeRO and of cyclic data parallelism, and what they send
#   fashion     accuracy on Fashion-MNIST, activations and bursts of data parallelism and cyclic
#               data parallelism on four ranks, over three seeds (a quarter of an hour)
#   fashion_state   what the same schedules keep in memory, with small and with large batches
#   dance       activations and bytes over time of data parallelism and cyclic data parallelism, on
#               devices that a clock emulates; draws them, too
#   codecs      the loss of codecs on four replicas, and what they send, over three seeds (half an hour)
#   pruned      quality, state and bytes of pruned networks, a GPT and a ResNet on Fashion-MNIST, over
#               three seeds (half an hour)
#   pruned_speed   what a step costs then, with dense products and with sparse ones (a quarter of an
#               hour; measure_pruned.sh has both parts)
#   pretended_replicas   updates a second of 1 to 8 pretended devices, with one bucket and with four
#   pretended_bubbles    the bubble by formula and on pretended devices, of the schedules that drain (three
#               minutes)
#   pretended_schedules  all pipeline schedules on four and eight pretended devices: rate, bubble, memory (fifteen
#               minutes; measure_pretended.sh has these parts and the next two)
#   pretended_hundred    1f1b, 2bw and paci over a hundred updates on eight of them (four minutes)
#   schedule_losses      the same schedules' losses after equal updates, each at its own best learning
#               rate, over three seeds (ten minutes)
#   quickstart  some lines of what examples/quickstart.sh prints (builds what it builds)
#   reduction_error   how far sums of quantized values are from exact ones; draws that, too
# The programs are build/bin/plan, train_gpt, train_resnet, benchmarks/round_dance and reduction_error, or what
# PLAN, TRAIN_GPT, TRAIN_RESNET, ROUND_DANCE and REDUCTION_ERROR name. A busy machine wakes sleepers late: as root, dance goes first.
# Afterwards, weave.sh puts the texts into the chapters.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
[[ -f ${1-} ]] || { echo "usage: measure.sh DATA [lost_rank|elastic|elastic_lab|schedules|longer|drift|bits|bubbles|shards|fashion|fashion_state|dance|codecs|pruned|pruned_speed|pretended_replicas|pretended_bubbles|pretended_schedules|pretended_hundred|schedule_losses|quickstart|reduction_error]..." >&2; exit 2; }
data=$1
parts=("${@:2}")
[[ ${#parts[@]} -gt 0 ]] || parts=(lost_rank elastic elastic_lab schedules longer drift bits bubbles shards fashion fashion_state dance codecs pruned pruned_speed pretended_replicas pretended_bubbles pretended_schedules pretended_hundred schedule_losses quickstart reduction_error)
train=${TRAIN_GPT:-build/bin/train_gpt}
plan=${PLAN:-build/bin/plan}
train_resnet=${TRAIN_RESNET:-build/bin/train_resnet}
round_dance=${ROUND_DANCE:-build/bin/benchmarks/round_dance}
reduction_error=${REDUCTION_ERROR:-build/bin/benchmarks/reduction_error}
figures=tutorials/figures
runs=$(mktemp -d)
trap 'rm -rf "$runs"' EXIT
export OMP_WAIT_POLICY=passive

train() { "$train" --data "$data" --quiet --overwrite --out "$runs/run" "$@"; }
value() { sed -n "s/^ *\"$1\": \([-0-9.e]*\),*$/\1/p" "$runs/run/summary.json"; }
machine() { printf 'Measured on %s on %s of %s.\n\n' "$(date -I)" "$(nproc --all | sed 's/$/ cores/; s/^1 cores/1 core/')" \
  "$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1)"; }

lost_rank() {
  OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --oversubscribe -n 4 \
    "$train" --transport mpi --data "$data" --quiet --out "$runs/lost" --schedule 1f1b --stages 4 \
    --microbatches 4 --batch 16 --untied --clip 0 --steps 100000 >/dev/null 2>"$runs/reports" &
  local mpirun=$!
  until [[ $(wc -l 2>/dev/null <"$runs/lost/metrics.jsonl") -gt 50 ]]; do kill -0 $mpirun; sleep 0.2; done
  kill -KILL "$(pgrep -P $mpirun | sed -n 3p)"
  wait $mpirun || true
  { echo '```'; grep -E '^ *rank [0-9]:' "$runs/reports"; echo '```'; } >"$runs/measured_lost_rank.md"
}

elastic() {
  # [snippet elastic]
  "$train" --data "$data" --out "$runs/elastic" --stages 2 --data-parallel 2 --microbatches 2 \
    --batch 16 --steps 60 --evaluate-every 10 --elastic --lose 1@12-25,2@47 >"$runs/printed" 2>&1
  # [end snippet]
  { echo '```'; grep -E '^elastic|^update |^ *rank [0-9]|parameters|^a segment|^valid' "$runs/printed" |
    sed "s|$runs|runs|g"; echo '```'; } >"$runs/measured_elastic.md"
}

elastic_lab() {
  tests/elastic_lab.sh "$(dirname "$train")" "$data" 600 20 8 "$runs/lab"
  { machine; cat "$runs/lab/table.md"; } >"$runs/measured_elastic_lab.md"
}

schedules() {
  local updates=400 size='--batch 16 --stages 4 --evaluate-every 0'
  {
    machine
    echo "| schedule | validation loss after $updates updates | weights, KB by rank |"
    echo '| --- | --- | --- |'
    for schedule in data gpipe 1f1b 2bw pipedream; do
      local micros=8
      [[ $schedule != pipedream ]] || micros=1  # each is an update
      train --schedule $schedule --microbatches $micros --steps $updates $size
      echo "| $schedule | $(printf %.3f "$(value validation_loss)") |" \
        "$(value weights | awk '{ printf "%s%.0f", (NR > 1 ? " " : ""), $1 / 1024 }') |"
    done
  } >"$runs/measured_schedules.md"
}

longer() {
  {
    machine
    echo '| sequences an update | schedule | validation loss after 2000 updates | beside one rank |'
    echo '| --- | --- | --- | --- |'
    local alone loss
    compare() {  # compare SEQUENCES NAME FLAGS...
      train "${@:3}" --steps 2000 --evaluate-every 0
      loss=$(value validation_loss)
      [[ $2 != "one rank" ]] || alone=$loss
      awk -v n="$1" -v name="$2" -v loss="$loss" -v alone="$alone" \
        'BEGIN { more = 100 * (loss / alone - 1)
                 if (more * more < 0.0025) more = 0  # and not -0.0
                 printf "| %s | %s | %.3f | %+.1f%% |\n", n, name, loss, more }'
    }
    compare 16 'one rank' --batch 16
    for schedule in gpipe 1f1b 2bw; do
      compare 16 $schedule --schedule $schedule --stages 4 --microbatches 8 --batch 16
    done
    compare 16 '1f1b, 2 x 2 ranks' --data-parallel 2 --stages 2 --microbatches 4 --batch 16
    compare 16 pipedream --schedule pipedream --stages 4 --batch 16
    compare 2 'one rank' --batch 2
    compare 2 pipedream --schedule pipedream --stages 4 --microbatches 8 --batch 16
  } >"$runs/measured_longer.md"
}

drift() {
  local steps=600 seeds='1 2 3' rates='5e-4 1e-3 2e-3 4e-3 8e-3 16e-3'
  local size="--vocab chars --layers 4 --heads 4 --width 64 --context 32 --batch 16 --stages 4
    --untied --clip 0 --evaluate-every 0 --steps $steps"
  row() {  # row NAME DRIFT MICROBATCHES FLAGS...: the learning rate with the lowest mean, and its losses
    local rate seed
    for rate in $rates; do
      for seed in $seeds; do
        if train $size --microbatches "$3" --learning-rate "$rate" --seed "$seed" "${@:4}" \
          2>"$runs/error"; then
          echo "$rate $(value validation_loss)"
        else
          grep -q 'is not finite\|loss is' "$runs/error" || { cat "$runs/error" >&2; return 1; }
          echo "$rate 99"  # it diverged
        fi
      done
    done | awk -v name="$1" -v drift="$2" -v m="$3" '
      { sum[$1] += $2; if (!($1 in low) || $2 < low[$1]) low[$1] = $2
        if ($2 > high[$1]) high[$1] = $2; n[$1]++ }
      END { for (rate in sum) if (best == "" || sum[rate] < sum[best]) best = rate
        printf "| %s | %s | %s | %g | %.3f (%.3f to %.3f) |\n", name, m, drift, best,
          sum[best] / n[best], low[best], high[best] }'
  }
  {
    machine
    echo "| schedule | m | drift | best learning rate of $(sed 's/ /, /g' <<<"$rates") |" \
      "validation loss after $steps updates, mean (lowest to highest of 3 seeds) |"
    echo '| --- | --- | --- | --- | --- |'
    row 1f1b 0 4 --schedule 1f1b
    row 2bw 0 4 --schedule 2bw
    row paci 1 4 --schedule paci
    row pipedream 0 1 --schedule pipedream
    row paci 3 1 --schedule paci
  } >"$runs/measured_drift.md"
}

bits() {
  {
    machine
    echo "After 30 updates of 16 sequences, with untied embeddings (\`--batch 16 --steps 30 --untied\`):"
    echo
    echo '| train_gpt ... | training loss of the last update |'
    echo '| --- | --- |'
    for layout in '--schedule data --microbatches 8' \
      '--schedule gpipe --stages 4 --microbatches 8' \
      '--schedule 1f1b --stages 4 --microbatches 8' \
      '--schedule data --data-parallel 2 --microbatches 4'; do
      train $layout --batch 16 --steps 30 --untied --evaluate-every 0
      echo "| \`$layout\` | $(value loss) |"
    done
  } >"$runs/measured_bits.md"
}

bubbles() {
  local size='--width 256 --context 128 --batch 32 --steps 12 --stages 2 --evaluate-every 0'
  head -c 20000 "$data" >"$runs/little.txt"
  {
    machine
    echo '| schedule | M | (D-1)/(M+D-1) | simulated from the measured costs | measured |'
    echo '| --- | --- | --- | --- | --- |'
    for schedule in gpipe 1f1b; do
      for micros in 2 4 8; do
        train --schedule $schedule --microbatches $micros $size --validation "$runs/little.txt"
        awk -v s=$schedule -v m=$micros -v a="$(value simulated)" -v b="$(value measured)" 'BEGIN {
          printf "| %s | %d | %.1f%% | %.1f%% | %.1f%% |\n", s, m, 100 / (m + 1), 100 * a, 100 * b }'
      done
    done
  } >"$runs/measured_bubbles.md"
}

shards() {
  local steps=4 phi
  peaks() {
    sed -n "/\"peak_bytes\"/,/\]/s/^ *\"$1\": \([0-9]*\),*$/\1/p" "$runs/run/summary.json"
  }
  most() { peaks "$1" | sort -n | tail -n 1 | awk -v phi="$phi" '{ printf "%.2f", $1 / phi }'; }
  sent() {
    sed -n '/"bytes_sent"/,/}/s/^ *"[a-z ]*": \([0-9]*\),*$/\1/p' "$runs/run/summary.json" |
      awk -v each="$((phi * steps * $1))" '{ sum += $1 } END { printf "%.2f", sum / each }'
  }
  head -c 2000 "$data" >"$runs/little.txt"
  {
    machine
    echo '| N | train_gpt --schedule ... | weights | gradients | optimizer | sent per update |'
    echo '| --- | --- | --- | --- | --- | --- |'
    kept() {  # kept N FLAGS...
      train --validation "$runs/little.txt" --layers $(($1 - 2)) --stages "$1" --batch "$1" \
        --steps $steps --evaluate-every 0 --clip 0 --untied --schedule "${@:2}"
      [[ "${*:2}" != *"--zero 0" ]] || phi=$(($(peaks weights | head -n 1) / 4))
      echo "| $1 | \`${*:2}\` | $(most weights) | $(most gradients) | $(most optimizer) | $(sent "$1") |"
    }
    for n in 4 16; do
      for zero in 0 1 2 3; do
        kept $n data --data-parallel $n --zero $zero
      done
      for setting in data zero; do
        kept $n cyclic-v2 --setting $setting
      done
    done
  } >"$runs/measured_shards.md"
}

on_images() {  # on_images SCHEDULE FLAGS...: a narrow ResNet on four ranks, cut into four stages
  local cut='--ranks 4'
  [[ $1 != data ]] || cut='--ranks 4 --stages 4 --data-parallel 4'
  "$train_resnet" --data fashion-mnist --width 8 --evaluate-every 0 --schedule "$1" $cut "${@:2}" \
    --quiet --overwrite --out "$runs/run"
}

fashion() {
  local seeds='1 2 3'
  for schedule in data cyclic-v1 cyclic-v2; do
    for seed in $seeds; do
      on_images $schedule --batch 64 --steps 937 --seed "$seed"
      echo "$schedule $(value validation_accuracy) $(value peak_activation_bytes) $(value largest_burst_bytes)"
    done
  done >"$runs/fashion.txt"
  {
    machine
    echo '| schedule | accuracy after an epoch, mean (lowest to highest of 3 seeds) |' \
      'peak total activations, MB | largest burst in a time step, kB |'
    echo '| --- | --- | --- | --- |'
    awk '!n[$1]++ { order[++rows] = $1; low[$1] = 1 }
      { sum[$1] += $2; alive[$1] += $3 / 1e6; burst[$1] += $4 / 1e3
        if ($2 < low[$1]) low[$1] = $2
        if ($2 > high[$1]) high[$1] = $2 }
      END { for (row = 1; row <= rows; ++row) { s = order[row]
        printf "| %s | %.2f%% (%.2f to %.2f) | %.1f | %.0f |\n", s, 100 * sum[s] / n[s],
          100 * low[s], 100 * high[s], alive[s] / n[s], burst[s] / n[s] } }' "$runs/fashion.txt"
  } >"$runs/measured_fashion.md"
}

fashion_state() {
  {
    machine
    echo '| batch | updates | schedule | activations, MB | weights | gradients | buffers | these four |'
    echo '| --- | --- | --- | --- | --- | --- | --- | --- |'
    while read -r batch updates; do
      for schedule in data cyclic-v1 cyclic-v2; do
        on_images $schedule --batch "$batch" --steps "$updates" --seed 1
        printf '| %s | %s | %s |' "$batch" "$updates" "$schedule"
        { echo "activations $(value peak_activation_bytes)"
          sed -n '/"peak_bytes"/,/\]/s/^ *"\([a-z]*\)": \([0-9]*\),*$/\1 \2/p' "$runs/run/summary.json"
        } | awk '$1 != "activations" || !seen++ { bytes[$1] += $2 / 1e6 }
          END { a = bytes["activations"]; w = bytes["weights"]; g = bytes["gradients"]
            b = bytes["communication"]
            printf " %.1f | %.2f | %.2f | %.2f | %.1f |\n", a, w, g, b, a + w + g + b }'
      done
    done <<<$'64 100\n256 25'
  } >"$runs/measured_fashion_state.md"
}

dance() {
  local first=
  ! chrt -f 10 true 2>/dev/null || first='chrt -f 10'
  { machine; $first "$round_dance" --out $figures; } >"$runs/measured_dance.md"
}

codecs() {
  local steps=2000 seeds='1 2 3' codecs='none quantize:4:1024 quantize:3:1024 adaptive'
  for codec in $codecs; do
    for seed in $seeds; do
      train --vocab chars --layers 4 --heads 4 --width 128 --context 64 --batch 12 --steps $steps \
        --learning-rate 1e-3 --min-learning-rate 1e-4 --warmup 100 --evaluate-every 0 \
        --schedule data --ranks 4 --codec "$codec" --seed "$seed"
      echo "$codec $(value validation_loss) $(value reductions)"
    done
  done >"$runs/codecs.txt"
  {
    machine
    echo "| codec | validation loss after $steps updates, mean (lowest to highest of 3 seeds) |" \
      'kB per update in sums, all ranks | compression |'
    echo '| --- | --- | --- | --- |'
    awk -v steps=$steps '!n[$1]++ { order[++rows] = $1; low[$1] = 1e9 }
      { sum[$1] += $2; bytes[$1] += $3 / steps
        if ($2 < low[$1]) low[$1] = $2
        if ($2 > high[$1]) high[$1] = $2 }
      END { for (row = 1; row <= rows; ++row) { c = order[row]
        printf "| `%s` | %.3f (%.3f to %.3f) | %.0f | %.2f |\n", c, sum[c] / n[c], low[c],
          high[c], bytes[c] / n[c] / 1e3, bytes["none"] / n["none"] / (bytes[c] / n[c]) } }' "$runs/codecs.txt"
  } >"$runs/measured_codecs.md"
}

source tutorials/measure_pretended.sh
source tutorials/measure_pruned.sh

quickstart() {
  examples/quickstart.sh --overwrite --out "$runs/run" >"$runs/quickstart.txt"
  shorten_quickstart "$runs/quickstart.txt" >"$runs/measured_quickstart.md"
}
# What the run says of itself, some of its updates, and lines with letters of the text that it writes.
shorten_quickstart() {
  echo '```'
  grep -E '^[0-9]+ parameters|^step +(1|1000|2000)/|^validation loss' "$1" | sed 's/; files go to .*//'
  echo ...
  sed '1,/^== A sample/d; /^== /,$d' "$1" | grep '[a-z]' | head -n 4
  echo '```'
}

reduction_error() {
  { machine; "$reduction_error" --out $figures; } >"$runs/measured_reduction_error.md"
}

for part in "${parts[@]}"; do
  case $part in
    lost_rank | elastic | elastic_lab | schedules | longer | drift | bits | bubbles | shards | fashion | fashion_state | \
      dance | codecs | pruned | pruned_speed | pretended_replicas | pretended_bubbles | \
      pretended_schedules | pretended_hundred | schedule_losses | quickstart | reduction_error)
      $part
      cp "$runs/measured_$part.md" $figures/
      ;;
    *) echo "measure.sh: no part $part" >&2; exit 2 ;;
  esac
done
