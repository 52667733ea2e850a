# The parts of measure.sh about runs on pretended devices, which sources this file.

# A GPT whose arithmetic takes far less time than the pretended computations: eight ranks share the
# cores of a laptop.
little_gpt='--vocab chars --heads 2 --width 32 --context 32 --clip 0 --untied --evaluate-every 0'

# key NAME...: a number of summary.json by its path of names.
key() {
  python3 -c 'import functools, json, sys
print(functools.reduce(lambda x, k: x[k], sys.argv[2:], json.load(open(sys.argv[1]))))' \
    "$runs/run/summary.json" "$@"
}
most() {  # most CATEGORY: the highest peak of a rank, in bytes
  python3 -c 'import json, sys
print(max(rank[sys.argv[2]] for rank in json.load(open(sys.argv[1]))["peak_bytes"]))' \
    "$runs/run/summary.json" "$1"
}
part() {  # part NAME: the share of all ranks' time that the measured breakdown gives it
  python3 -c 'import json, sys
time = json.load(open(sys.argv[1]))["breakdown"]["measured"]
print(time[sys.argv[2]] / time["makespan"] / len(time["ranks"]))' "$runs/run/summary.json" "$1"
}
largest() {  # largest NAME: the largest number of a list in what "plan verify --json" prints
  python3 -c 'import json, sys
print(max(json.load(sys.stdin)[sys.argv[1]]))' "$1"
}

# Replicas, whose sums travel at the end of an update, or stage by stage beside the backward.
pretended_replicas() {
  local steps=40
  {
    machine
    echo 'Pretended: 20 ms forward and 40 ms backward of an update on each device, and links of 20 MB/s' \
      'and 0.2 ms between neighbours of the ring. Efficiency: 60 ms by the time of an update.'
    echo
    echo '| devices | updates/s, one bucket | efficiency | updates/s, four buckets | efficiency |'
    echo '| --- | --- | --- | --- | --- |'
    for ranks in 1 2 4 8; do
      local row="| $ranks |" link='--reduction ring --pretend-link 0.0002,2e7'
      [[ $ranks -gt 1 ]] || link=  # a rank alone sends nothing
      for stages in 1 4; do
        train $little_gpt --layers 8 --schedule data --ranks $ranks --stages $stages --microbatches 1 \
          --batch $ranks --steps $steps $link \
          --pretend-compute "$(awk -v s=$stages 'BEGIN { print 0.02 / s "," 0.04 / s }')"
        row+=$(awk -v n=$steps -v s="$(key seconds)" \
          'BEGIN { printf " %.1f | %.0f%% |", n / s, 100 * n / s * 0.06 }')
      done
      echo "$row"
    done
  } >"$runs/measured_pretended_replicas.md"
}

# The bubble of schedules that drain at each update, beside that of their plan on devices without any
# overhead, which tests compare with each schedule's formula.
pretended_bubbles() {
  local schedule chunks micros layout
  {
    machine
    echo 'Pretended: 20 ms forward and 40 ms backward of what a rank holds; the parts of a backward take' \
      'half each. Four updates in one plan, after one to warm up.'
    echo
    echo '| schedule | D = 4, M = 4: planned | measured | D = 4, M = 16: planned | measured |' \
      'D = 8, M = 8: planned | measured | D = 8, M = 32: planned | measured |'
    echo '| --- | --- | --- | --- | --- | --- | --- | --- | --- |'
    for schedule in gpipe 1f1b message-driven interleaved looped-bfs zb-h1 zb-h2 zb-v dualpipe dualpipe-v; do
      case $schedule in
        interleaved | looped-bfs | zb-v | dualpipe-v) chunks=2 ;;
        *) chunks=1 ;;
      esac
      printf '| `%s` |' $schedule
      for depth in 4 8; do
        for micros in $depth $((4 * depth)); do
          layout="--schedule $schedule --stages $((chunks * depth)) --microbatches $micros"
          train $little_gpt --layers 16 --ranks $depth $layout --batch $micros --steps 5 \
            --pretend-compute "$(awk -v c=$chunks 'BEGIN { print 0.02 / c "," 0.04 / c }')"
          awk -v a="$("$plan" simulate $layout --steps 4 --backward 2 | sed -n 's/^bubble  *//p')" \
            -v b="$(key bubble measured)" 'BEGIN { printf " %s | %.1f%% |", a, 100 * b }'
        done
      done
      echo
    done
  } >"$runs/measured_pretended_bubbles.md"
}

# Schedules at equal costs: rate, where the time goes, memory. Ranks with two stages have stages of half
# the size. Schedules whose pipeline never drains make a hundred updates. Without the validation at the
# end, peaks of memory are those of training.
pretended_schedules() {
  {
    machine
    echo 'Pretended: 10 ms forward, 20 ms backward of what a rank holds, links of 0.5 ms and 20 MB/s. A' \
      'rank without a bubble computes 33.3 microbatches a second. Over 32 D microbatches, or a hundred' \
      'updates where the pipeline stays full. Of the bubble, messages are that part of the recorded updates in' \
      'which a rank waits for a message that is on its way.'
    echo
    echo '| D | M | schedule | updates/s | microbatches/s | bubble | messages | versions | weights of a' \
      'rank, KB | activations of a rank, KB | a rank in all, KB |'
    echo '| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |'
    local schedule flags chunks updates m
    for depth in 4 8; do
      for micros in $depth $((4 * depth)); do
        for schedule in gpipe 1f1b message-driven interleaved looped-bfs zb-h1 zb-h2 zb-v dualpipe \
          dualpipe-v 2bw paci pipedream cyclic-v2; do
          chunks=1 m=$micros updates=$((32 * depth / micros))
          case $schedule in
            interleaved | looped-bfs | zb-v | dualpipe-v) chunks=2 ;;
            pipedream) m=1 ;;  # each is an update
          esac
          case $schedule in
            pipedream | cyclic-v2) [[ $micros == "$depth" ]] || continue ;;  # M is fixed
          esac
          case $schedule in
            pipedream) updates=$((100 * depth)) ;;
            2bw | paci | cyclic-v2) updates=100 ;;
          esac
          flags="--microbatches $m"
          [[ $schedule != cyclic-v2 ]] || flags='--setting pipeline'
          train $little_gpt --layers 16 --ranks $depth --stages $((chunks * depth)) --schedule $schedule \
            $flags --batch $m --steps $((2 * updates)) --stop-after $updates --pretend-link 0.0005,2e7 \
            --pretend-compute "$(awk -v c=$chunks 'BEGIN { print 0.01 / c "," 0.02 / c }')"
          awk -v d=$depth -v m=$m -v s=$schedule -v n=$updates -v t="$(key seconds)" \
            -v b="$(key bubble all_steps)" -v p="$(part point_to_point)" \
            -v v="$("$plan" verify "$runs/run/recorded.plan" --json | largest live_versions)" \
            -v w="$(most weights)" -v a="$(most activations)" -v all="$(most total)" 'BEGIN {
              printf "| %d | %s | `%s` | %.2f | %.1f | %.1f%% | %.1f%% | %d | %.0f | %.0f | %.0f |\n", d, m,
                s, n / t, n * m / t, 100 * b, 100 * p, v, w / 1024, a / 1024, all / 1024 }'
        done
      done
    done
  } >"$runs/measured_pretended_schedules.md"
}

# Eight stages with the fewest microbatches that keep 2bw full, over a hundred updates.
pretended_hundred() {
  {
    machine
    echo 'Pretended: 20 ms forward, 40 ms backward, so that 8 microbatches take at least 480 ms.'
    echo
    echo '| schedule | updates/s | of the ideal 2.08 | bubble | computations that were late |'
    echo '| --- | --- | --- | --- | --- |'
    for schedule in 1f1b 2bw paci; do
      train $little_gpt --layers 8 --ranks 8 --stages 8 --schedule $schedule --microbatches 8 --batch 8 \
        --steps 100 --pretend-compute 0.02,0.04
      awk -v s=$schedule -v t="$(key seconds)" -v b="$(key bubble all_steps)" \
        -v late="$(key pretended late)" -v all="$(key pretended computations)" 'BEGIN {
          printf "| %s | %.2f | %.3f | %.1f%% | %d of %d |\n", s, 100 / t, 48 / t, 100 * b, late, all }'
    done
  } >"$runs/measured_pretended_hundred.md"
}

# What staleness costs in loss: every schedule at its own best learning rate.
schedule_losses() {
  local size='--vocab chars --layers 4 --heads 4 --width 64 --context 64 --ranks 4 --stages 4
    --untied --clip 0 --evaluate-every 0 --warmup 40 --steps 400'
  one() {  # one SCHEDULE RATE SEED: the validation loss
    local flags='--microbatches 4 --batch 16'
    case $1 in
      pipedream) flags='--microbatches 1 --batch 16' ;;
      cyclic-v2) flags='--setting pipeline --batch 16' ;;
    esac
    train $size --schedule "$1" $flags --learning-rate "$2" --min-learning-rate "$2" --seed "$3"
    key validation_loss
  }
  {
    machine
    echo "| schedule | best learning rate | validation loss after 400 updates, mean (lowest to highest of 3 seeds) |"
    echo '| --- | --- | --- |'
    local schedule rate seed loss
    for schedule in gpipe 1f1b message-driven 2bw paci pipedream cyclic-v2; do
      for rate in 5e-4 1e-3 2e-3 4e-3 8e-3; do
        echo "$rate $(one $schedule $rate 1)"
      done >"$runs/rates.txt"
      read -r rate loss < <(sort -g -k 2 "$runs/rates.txt" | head -n 1)
      { echo "$loss"; for seed in 2 3; do one $schedule "$rate" $seed; done; } |
        awk -v s=$schedule -v r="$rate" '{ sum += $1 } NR == 1 || $1 < low { low = $1 } $1 > high { high = $1 }
          END { printf "| %s | %s | %.3f (%.3f to %.3f) |\n", s, r, sum / NR, low, high }'
    done
  } >"$runs/measured_schedule_losses.md"
}
