#!/usr/bin/env bash
# Draws the figures of the README and the chapters, and prints what they quote of the program `plan`,
# into figures/; takes the README's results from the tables that were measured:
#   figures.sh [--check] [PLAN]     PLAN is the program; without it, build/bin/plan
# --check changes nothing and fails where a file would change. What a machine measured is not here:
# measure.sh writes that. After either, weave.sh puts the texts into the chapters.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

check=false
if [[ ${1-} == --check ]]; then check=true; shift; fi
plan=${1:-build/bin/plan}
[[ $# -le 1 ]] || { echo "usage: figures.sh [--check] [PLAN]" >&2; exit 2; }
[[ -x $plan ]] || { echo "figures.sh: no program $plan; build it first" >&2; exit 2; }
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT

plan() { "$plan" "$@"; }
draw() { plan draw "${@:2}" --out "$new/$1.svg" >/dev/null; }        # draw NAME FLAGS...
quote() {                                                              # quote NAME COMMAND FLAGS...
  { printf '```\n$ build/bin/plan %s\n' "${*:2}"; plan "${@:2}"; printf '```\n'; } >"$new/$1.md"
}
fact() { plan verify "${@:2}" | sed -n "s/^$1  *//p"; }              # fact NAME FLAGS...
makespan() { plan simulate --json "$@" 2>/dev/null | sed -n 's/^  "makespan": \([0-9.e+-]*\),*$/\1/p'; }

# ---- the README
plan poster --out "$new/poster.svg" >/dev/null
{
  small='--schedule 2bw --stages 2 --microbatches 2 --steps 2'
  printf '```\n'
  printf "$ build/bin/plan show %s | sed 's/1B2v0/1B2v1/' | build/bin/plan verify -\n" "$small"
  if plan show $small | sed 's/1B2v0/1B2v1/' | plan verify - 2>&1; then
    echo 'figures.sh: the wrong plan of the README is not rejected' >&2; exit 1
  fi
  echo '```'
} >"$new/rejected_plan.md"
# cell FILE ROW COLUMN: of the first row of a measured table whose first cells are ROW.
cell() {
  awk -F ' *[|] *' -v row="| $2 |" -v column="$3" '
    !value && index($0, row) == 1 { value = $(column + 1) }
    END { if (value == "") exit 1; print value }' "$1" ||
    { echo "figures.sh: no row $2 in $1" >&2; exit 1; }
}
# machine FILE: the processor and the date of a measured table.
machine() { sed -n '1s/^Measured on \([0-9-]*\) on \([^,;]*[^,;.]\).*/| \2 | \1 |/p' "$1"; }
results=tests/benchmarks/results
{
  lab=$results/codec_lab.md losses=tutorials/figures/measured_codecs.md
  pruned=tutorials/figures/measured_pruned.md dance=tutorials/figures/measured_dance.md
  torch=$results/against_pytorch_2.15.0.md hundred=tutorials/figures/measured_pretended_hundred.md longer=tutorials/figures/measured_longer.md
  echo '| from [all tables](RESULTS.md) | result | measured on | date |'
  echo '| --- | --- | --- | --- |'
  echo "| [Gradient sums in 4 bits](RESULTS.md#speed-on-a-slow-network) between four hosts on a slow network | $(cell $lab '`quantize:4`' 5) times the tokens/s of" \
    "f32 sums; in another run, validation loss $(cell $losses '`quantize:4:1024`' 2 | sed 's/ .*//') instead of" \
    "$(cell $losses '`none`' 2 | sed 's/ .*//') $(machine $lab)"
  echo "| [A GPT with 90% of each matrix pruned](RESULTS.md#quality-state-and-messages), stored compressed (SAMO) | $(cell $pruned '90% | gradual' 5) of the dense" \
    "run's state; validation loss $(cell $pruned '90% | gradual' 3 | sed 's/ .*//') instead of" \
    "$(cell $pruned '0% | -' 3 | sed 's/ .*//') $(machine $pruned)"
  echo "| [Activations under cyclic data parallelism](RESULTS.md#activations-and-bytes-over-time), eight ranks that sleep instead of computing | a peak of" \
    "$(cell $dance '8 | alike | `cyclic-v2`' 5 | sed 's/.*(\(.*\))/\1/') times data parallelism's $(machine $dance)"
  echo "| [PipeDream-2BW](RESULTS.md#a-pipeline-that-never-drains), eight stages on pretended devices, a hundred updates |" \
    "$(awk -v slow="$(cell $hundred 1f1b 3)" -v fast="$(cell $hundred 2bw 3)" 'BEGIN { printf "%.2f", fast / slow }')" \
    "times the updates/s of 1F1B, a bubble of $(cell $hundred 2bw 4) instead of $(cell $hundred 1f1b 4); in [other runs](tutorials/07-two-versions-of-the-weights.md#what-the-staleness-does-to-training)" \
    "of 2000 updates, validation loss $(cell $longer '16 | 2bw' 3) instead of $(cell $longer '16 | 1f1b' 3) $(machine $hundred)"
  echo "| [Simulated times](RESULTS.md#measured-beside-simulated) of all schedules, and of sums over replicas" \
    "by every reduction, on links and on shared cards | off by" \
    "$(sed -n 's/^Size of the error over all runs: \(.*\)\.$/\1/p' $results/pretended.md | sort -k 5,5nr | head -n 1) $(machine $results/pretended.md)"
  echo "| [A GPT's training step beside PyTorch 2.15](RESULTS.md#a-training-step-beside-pytorch-2150) on the same CPU | $(awk -F ' *[|] *' '$7 + 0 > 0 {
      if (!low || $7 < low) low = $7; if ($7 > high) high = $7 } END { print low " to " high }' $torch)" \
    "times its tokens/s $(machine $torch)"
  gpu=$results/gpu_nvidia_h200
  echo "| [GPT-2's training step on a GPU](RESULTS.md#on-a-gpu) beside PyTorch's, compiled, of the same weights in bf16 |" \
    "$(cell $gpu/training.md gpt2 5) tokens/s, $(cell $gpu/pytorch.md 'bf16 weights, compiled' 6) times PyTorch's" \
    "$(sed -n '1s/^On \(.*\), commit .*, date \(.*\)$/| \1 | \2 |/p' $gpu/training.md)"
} >"$new/highlights.md"

# The page begins with the game; the version stays that of the release, or each commit would change it.
plan draw --schedule 1f1b --stages 4 --microbatches 6 --game --out "$new/page.html" >/dev/null
version=$(sed -n 's/^project(plangrad VERSION \([0-9.]*\) .*/\1/p' CMakeLists.txt)
sed 's/\("made":{[^}]*"version":"\)[^"]*/\1'"$version/" "$new/page.html" >"$new/player.html"
rm "$new/page.html"

# ---- 04: messages
draw messages --schedule 1f1b --stages 2 --microbatches 3 --forward 1 --backward 2 \
  --activation-bytes 500000 --bandwidth 1e6 --latency 0.1
quote capacity verify tutorials/figures/capacity.plan

# ---- 05: data parallelism
quote data show --schedule data --data-parallel 2 --stages 3
# A model of 50 MB, 80 ms forward and 160 ms backward, on 5 Gbit/s, cut into so many buckets.
buckets() {  # buckets NUMBER RANKS LATENCY
  awk -v n="$1" -v ranks="$2" -v latency="$3" 'BEGIN {
    print "--schedule data --data-parallel", ranks, "--stages", n, "--forward", 0.08 / n,
      "--backward", 0.16 / n, "--weight-bytes", 5e7 / n, "--bandwidth 6.25e8 --reduction ring --latency", latency }'
}
for number in 1 4; do  # on one scale, as all figures that chapters compare
  draw "buckets_$number" $(buckets $number 2 0) --width 640 --seconds 0.32
done
{
  echo '| buckets | backward of each | all-reduce by the ring | time of an update | all-reduce in two rounds | time of an update |'
  echo '| --- | --- | --- | --- | --- | --- |'
  reduced() {  # reduced NUMBER LATENCIES: an all-reduce of a bucket, and a step with it
    # The simulator counts the ring's 2 (N-1) latencies; a third of the latency makes them two.
    awk -v n="$1" -v l="$2" 'BEGIN { printf " %.3g ms |", 1000 * (l * 0.001 + 6 * 5e7 / n / 4 / 6.25e8) }'
    plan simulate $(buckets "$1" 4 "$(awk -v l="$2" 'BEGIN { print 0.001 * l / 6 }')") |
      sed -n 's/^makespan *\(.*\)/ \1 |/p' | tr -d '\n'
  }
  for number in 1 2 4 8 16 32; do
    echo "| $number | $(awk -v n="$number" 'BEGIN { print 160 / n }') ms |$(reduced $number 6)$(reduced $number 2)"
  done
} >"$new/buckets.md"

# ---- 06: pipelines
for schedule in gpipe 1f1b; do
  quote "$schedule" draw --schedule $schedule --stages 4 --microbatches 8 --backward 1
  draw "$schedule" --schedule $schedule --stages 4 --microbatches 8 --backward 2
done
{
  echo '```'
  for schedule in 1f1b message-driven 'message-driven --in-flight 5'; do
    flags="--schedule $schedule --stages 3 --microbatches 6 --backward 1 --latency 1"
    echo "\$ build/bin/plan draw $flags"
    plan draw $flags
  done
  echo '```'
} >"$new/driven.md"
quote recompute show --schedule 1f1b --stages 2 --microbatches 2 --recompute
draw two_parts tests/parallel/plans/zero_bubble.plan --backward 2
quote machine machine v100-aws
quote lowered show --schedule 1f1b --stages 2 --microbatches 3
quote facts verify --schedule 1f1b --stages 4 --microbatches 8
late='--schedule 1f1b --stages 2 --data-parallel 2 --microbatches 4 --latency 0.3'
quote breakdown simulate $late
draw critical_path $late --critical-path
{
  echo '| M | (D-1)/(M+D-1) | GPipe, simulated | 1F1B, simulated | GPipe keeps | 1F1B keeps |'
  echo '| --- | --- | --- | --- | --- | --- |'
  for m in 1 2 4 8 16 32; do
    size="--stages 4 --microbatches $m --backward 2"
    formula=$(awk -v m=$m 'BEGIN { printf "%.3g%%", 100 * 3 / (m + 3) }')
    echo "| $m | $formula | $(fact bubble --schedule gpipe $size) | $(fact bubble --schedule 1f1b $size)" \
      "| $(fact 'peak forwards' --schedule gpipe $size)" \
      "| $(fact 'peak forwards' --schedule 1f1b $size) |"
  done
} >"$new/bubbles.md"

for schedule in interleaved zb-h1; do
  [[ $schedule == zb-h1 ]] && size='4 --microbatches 8' || size='8 --microbatches 4'
  size="--stages $size"
  quote "${schedule//-/_}" draw --schedule $schedule $size
  draw "${schedule//-/_}" --schedule $schedule $size --backward 2
done
# chunked NAME STAGES FORWARD FORMULA: four ranks and eight microbatches; a stage's forward takes
# FORWARD, each part of its backward as long. Between updates of a long run, so that what one update
# leaves idle the next one can use.
seconds() { makespan "${@:2}" --steps "$1"; }  # seconds STEPS FLAGS...
chunked() {
  local size="--schedule $1 --stages $2 --microbatches 8" cost="--forward $3" clipped idle
  cost+=" --backward $(awk -v f="$3" 'BEGIN { print 2 * f }')"
  idle() {
    awk -v four="$(seconds 4 $size $cost "$@")" -v three="$(seconds 3 $size $cost "$@")" \
      'BEGIN { printf "%.3g s, %.3g%%", four - three - 24, 100 * (1 - 24 / (four - three)) }'
  }
  echo "| \`$1\` | $(fact 'stages of each rank' $size) | $4 | $(idle) | $(idle --clip)" \
    "| $(fact 'peak in models' $size) | $(fact messages $size --steps 1) |"
}
{
  echo '| schedule | stages of each rank | idle, formula | idle, simulated | with clipping | peak in models | messages |'
  echo '| --- | --- | --- | --- | --- | --- | --- |'
  chunked gpipe 4 1 '(D-1) (F + B)'
  chunked 1f1b 4 1 '(D-1) (F + B)'
  chunked interleaved 8 0.5 '(D-1) (F + B) / V'
  chunked looped-bfs 8 0.5 '(D-1) (F + B) / V'
  chunked zb-h1 4 1 '(D-1) (F + I - W)'
  chunked zb-h2 4 1 '(D-1) (F + I - 2W)'
  chunked zb-v 8 0.5 '0 if F = I = W'
  chunked dualpipe-v 8 0.5 '(D-1) (F + I - W) / V'
  chunked dualpipe 4 1 '(D/2-1) (F + I - W)'
} >"$new/chunked.md"
command -v python3 >/dev/null ||
  { echo "figures.sh: needs python3, for examples/own_schedule.py; install it" >&2; exit 2; }
{
  printf '```\n$ python3 examples/own_schedule.py | build/bin/plan lower - >runs/own.plan\n'
  python3 examples/own_schedule.py | plan lower - >"$new/own.plan"
  printf '$ build/bin/plan draw runs/own.plan --backward 1\n'
  plan draw "$new/own.plan" --backward 1
  printf '$ build/bin/plan verify runs/own.plan | grep -E "peak|bubble"\n'
  plan verify "$new/own.plan" | grep -E 'peak|bubble'
  printf '```\n'
  rm "$new/own.plan"
} >"$new/own_schedule.md"
quote order order --stages 4 --microbatches 4 --split --most 4,3,2,1 --forward 3,1,1,3 \
  --backward 6,2,2,6

# ---- chapter 16
quote planned_peak simulate --schedule zb-h1 --stages 2 --data-parallel 4 --zero 1 --microbatches 64 \
  --model gpt3-xl --sequences 2 --dtype bf16 --device gpu --machine v100-aws
sed -i '/^critical path/,/^$/d; /^rank\|^all 8\|^ *compute/d' "$new/planned_peak.md"
quote planned_search search --model 2bw-2.2b --machine v100-aws --devices 64 --batch 512
quote planned_place place examples/graphs/gpt-block.txt --devices 2 --bandwidth 25e9
# fastest NAME WHAT: begins a table of plans, one for each WHAT.
fastest() {
  printf '| %s | depth x width | sequences | schedule | recompute | ZeRO | sequences/s | fullest rank | computing |\n' \
    "$2" >"$new/$1.md"
  echo '| --- | --- | --- | --- | --- | --- | --- | --- | --- |' >>"$new/$1.md"
}
# row NAME CASE FLAGS...: adds the fastest plan.
row() {
  plan search --rows 1 "${@:3}" 2>/dev/null | awk -v first="$2" '$1 == 1 && $8 == "x" {
    print "| " first " | " $7 " x " $9 " | " $10 " | `" $11 "` | " $12 " | " $13 " | " $2 " | " \
      $5 " " $6 " | " $15 " |"; exit }' >>"$new/$1.md"
}
fastest planned_machines 'eight devices of'
for machine in v100-aws summit rtx3090x8 dgx-a100 h100-hgx; do
  row planned_machines "$machine" --model gpt3-xl --machine $machine --devices 8 --batch 512
done
fastest planned_memory 'GB of each device'
for memory in 78 39 23 15 10; do
  row planned_memory $memory --model gpt3-2.7b --machine dgx-a100 --devices 8 --batch 512 \
    --memory ${memory}e9
done
fastest planned_batches 'sequences of an update'
for batch in 32 64 256 1024 4096; do
  row planned_batches $batch --model gpt3-2.7b --machine dgx-a100 --devices 64 --batch $batch
done
fastest planned_cards 'GB/s of a card'
for card in 160 16 4 1; do
  plan machine dgx-a100 | sed "s/160e9/${card}e9/" >"$new/machine.txt"
  row planned_cards $card --model gpt3-xl --machine "$new/machine.txt" --devices 16 --batch 256
done
rm "$new/machine.txt"

# A rank that forgets to receive.
if plan show --schedule 1f1b --stages 3 --microbatches 4 | sed 's/1a2<1 //' |
  plan draw - --backward 2 --out "$new/fault.svg" >/dev/null 2>&1; then
  echo 'figures.sh: the wrong plan of chapter 6 is not rejected' >&2; exit 1
fi

# A plan for each rule that breaks it: a good one with one change.
two_stages='stages 2 per_step 2 steps 1 keep 1
0F0v0 0a0>1 0F1v0 0a1>1 0g0<1 0B0v0 0g1<1 0B1v0 0Sv1
0a0<0 1F0v0 0a1<0 1B0v0 0g0>0 1F1v0 1B1v0 0g1>0 1Sv1'
one_rank='stages 1 per_step 2 steps 2 keep 2
0F0v0 0B0v0 0F1v0 0B1v0 0Sv1 0F2v0 0B2v0 0F3v0 0B3v0 0Sv2'
two_replicas='stages 2 per_step 2 steps 1 keep 1 groups 0,1
0F0v0 1F0v0 1B0v0 1Rv1@0 0B0v0 0Rv1@0 1Sv1 0Sv1
0F1v0 1F1v0 1B1v0 1Rv1@0 0B1v0 0Rv1@0 1Sv1 0Sv1'
broken() {  # broken RULE PLAN FROM TO
  local text=${2/"$3"/"$4"} said
  if said=$(plan verify - <<<"$text" 2>&1); then said=accepted; fi
  said=$(head -n 1 <<<"$said")
  [[ $said == "error: $1: "* ]] || { echo "figures.sh: $1, $3 to $4: $said" >&2; exit 1; }
  echo "| $1 | \`$3\` becomes ${4:+\`}${4:-nothing}${4:+\`} | ${said#"error: $1: "} |"
}
{
  echo '| rule | the change | what verify says |'
  echo '| --- | --- | --- |'
  broken shape "$two_stages" 0F0v0 2F0v0
  broken input "$two_stages" '0a0<0 1F0v0' '1F0v0 0a0<0'
  broken version "$two_stages" 1F0v0 1F0v1
  broken 'same version' "$one_rank" 0B2v0 0B2v1
  broken stash "$two_stages" 1B0v0 '1Da0 1B0v0'
  broken once "$two_replicas" '0F1v0 1F1v0' '0F0v0 1F0v0'
  broken send "$two_stages" '0F0v0 0a0>1' '0a0>1 0F0v0'
  broken match "$two_stages" '0a0>1 0F1v0 0a1>1' '0F1v0 0a1>1 0a0>1'
  broken drop "$two_stages" 1B0v0 '1Da1 1B0v0'
  broken sum "$one_rank" '0B1v0 0Sv1' '0Sv1 0B1v0'
  broken 'sum order' "$one_rank" '0B0v0 0F1v0 0B1v0' '0F1v0 0B1v0 0B0v0'
  broken order "$one_rank" 0Sv1 0Sv2
  broken norm "$two_replicas" 'keep 1' 'keep 1 clip 1'
  broken together "$two_replicas" '1Rv1@0 0B0v0 0Rv1@0' '0B0v0 0Rv1@0 1Rv1@0'
  broken end "$one_rank" ' 0Sv2' ''
  broken leak 'stages 1 per_step 1 steps 0 keep 1
0F0v0 0Da0' ' 0Da0' ''
  broken hang "$(plan show --schedule gpipe --stages 2 --microbatches 2)" \
    '0F1v0 0a1>1 0g1<1 0B0v0' '0B0v0 0F1v0 0a1>1 0g1<1'
  broken gathered "$(<tests/parallel/plans/zero_3.plan)" '0Gwv0@0 1Gwv0@0 0F0v0' '1Gwv0@0 0F0v0'
  broken turn "$(<tests/parallel/plans/cyclic_v2_data.plan)" '0t1<0 0F1v0' '0F1v0 0t1<0'
} >"$new/rules.md"

# ---- 07: versions
plan poster --all --out "$new/schedules.svg" >/dev/null
never_drains='--endless --schedule 2bw --stages 2 --microbatches 2'
{
  printf '```\n$ build/bin/plan show %s\n' "$never_drains"
  plan show $never_drains | grep -v '^#'  # how long the proof took differs
  printf '$ build/bin/plan simulate %s | grep steady\n' "$never_drains"
  plan simulate $never_drains | grep steady
  printf '```\n'
} >"$new/endless.md"
{
  echo '| rule | the change | what verify says |'
  echo '| --- | --- | --- |'
  broken repeat "$(plan show $never_drains)" '| 0Sv1' '0Sv1 |'
} >"$new/endless_rules.md"
size='--stages 4 --microbatches 4' scale='--backward 2 --width 971 --seconds 45'
draw flushes --schedule 1f1b $size --steps 2 $scale
draw pipedream --schedule pipedream $size --steps 3 $scale
draw 2bw --schedule 2bw $size --steps 3 $scale
draw 2bw_versions --schedule 2bw $size --steps 3 $scale --lanes versions
draw drift --schedule paci $size --steps 3 $scale
draw stashless --schedule paci --stages 4 --microbatches 1 --steps 12 $scale
quote 2bw show --schedule 2bw --stages 2 --microbatches 2
quote clipped show --schedule 2bw --stages 2 --microbatches 2 --clip --tied
{
  echo '| schedule | versions, by stage | staleness | microbatches kept, by stage | bubble of 10 batches |'
  echo '| --- | --- | --- | --- | --- |'
  for schedule in gpipe 1f1b pipedream 2bw; do
    size="--schedule $schedule --stages 4 --microbatches 4 --steps 10 --backward 2"
    echo "| $schedule | $(fact 'live versions' $size) | $(fact staleness $size)" \
      "| $(fact 'peak forwards' $size) | $(fact bubble $size) |"
  done
} >"$new/versions.md"

{
  drifts='show --endless --schedule paci --stages 3 --microbatches 2'
  printf '```\n$ build/bin/plan %s\n' "$drifts"
  plan $drifts | grep -v '^#'
  printf '```\n'
} >"$new/drift.md"
{
  stashless=$(plan show --schedule paci --stages 3 --microbatches 1 --steps 4)
  one_newer=$(plan show --schedule paci --stages 3 --microbatches 2 --steps 3)
  echo '| rule | the change | what verify says |'
  echo '| --- | --- | --- |'
  broken drift "$stashless" 'drift 2' 'drift 1'
  broken 'same version' "$one_newer" ' drift 1' ''
  broken version "$one_newer" 0B2v1 0B2v0
} >"$new/drift_rules.md"
{
  echo '| schedule | m | versions, by stage | staleness | drift | microbatches kept, by stage | bubble of 40 microbatches |'
  echo '| --- | --- | --- | --- | --- | --- | --- |'
  drift_row() {  # drift_row NAME M STEPS FLAGS...
    local flags="--stages 4 --microbatches $2 --steps $3 --backward 2 ${*:4}"
    local drift
    drift=$(fact drift $flags)
    echo "| $1 | $2 | $(fact 'live versions' $flags) | $(fact staleness $flags) | ${drift:-0}" \
      "| $(fact 'peak forwards' $flags) | $(fact bubble $flags) |"
  } 2>/dev/null  # notes
  drift_row 1f1b 4 10 --schedule 1f1b
  drift_row 2bw 4 10 --schedule 2bw
  drift_row paci 4 10 --schedule paci
  drift_row 2bw 1 40 --schedule 2bw
  drift_row pipedream 1 40 --schedule pipedream
  drift_row paci 1 40 --schedule paci
  drift_row 'paci, `--drift 1`' 1 40 --schedule paci --drift 1
} >"$new/drift_facts.md"
{
  echo '| D | m = 1 | m = 2 | m = 3 | m = 4 | m = 5 | m = 6 | m = 7 |'
  echo '| --- | --- | --- | --- | --- | --- | --- | --- |'
  for d in 2 3 4 5 6 7 8; do
    row="| $d |"
    for m in 1 2 3 4 5 6 7; do
      size="--schedule 2bw --stages $d --microbatches $m --backward 2"  # without the ends of a plan:
      row+=$(awk -v a="$(seconds 24 $size)" -v b="$(seconds 48 $size)" -v m=$m 'BEGIN {
        each = (b - a) / (24 * m); printf each == 3 ? " **%g s** |" : " %g s |", each }')
    done
    echo "$row"
  done
} >"$new/2bw_waits.md"
{
  few='simulate --schedule 2bw --stages 8 --microbatches 1 --steps 48'
  printf '```\n$ build/bin/plan %s\n' "$few"
  plan $few 2>&1
  printf '```\n'
} >"$new/2bw_note.md"

# ---- 08: cyclic data parallelism, in which a forward and a backward are a time step each
dance='--schedule cyclic-v2 --stages 4' side_by_side='--schedule data --data-parallel 4 --stages 4'
quote dance draw --schedule cyclic-v2 --stages 3 --steps 3 --backward 1
quote cyclic show --schedule cyclic-v2 --stages 3 --steps 2
quote cyclic_facts verify $dance --backward 1
quote home show --schedule cyclic-v2 --setting zero --stages 3 --steps 1
scale='--backward 1 --alive --width 971 --seconds 30'
draw dance $dance --steps 3 $scale
draw side_by_side $side_by_side --steps 3 $scale
draw model $dance --setting model --steps 3 $scale
{
  echo '| | microbatch 0 | microbatch 1 | microbatch 2 | microbatch 3 |'
  echo '| --- | --- | --- | --- | --- |'
  plan show $dance --setting pipeline --first 5 --steps 1 | tr ' ' '\n' |
    sed -n 's/^\([0-9]*\)F\([0-9]*\)v\([0-9]*\)$/\1 \2 \3/p' |
    awk '{ read[$1, $2 % 4] = $3 == 5 ? "new" : "old" }
      END { for (j = 0; j < 4; ++j) {
        printf "| stage %d |", j
        for (i = 0; i < 4; ++i) printf " %s |", read[j, i]
        print "" } }'
} >"$new/reads.md"
steady() { fact "$1" --backward "${@:2}" --steps 8 --time-steps; }  # steady NAME BACKWARD FLAGS...
{
  echo '| N | activations, `data` | activations, `cyclic-v2` | sums, `data` | sums, `cyclic-v2` |'
  echo '| --- | --- | --- | --- | --- |'
  for n in 2 3 4 5 6 7 8 9 16; do
    both=("--schedule data --data-parallel $n --stages $n" "--schedule cyclic-v2 --stages $n")
    echo "| $n | $(steady activations 1 ${both[0]}) | $(steady activations 1 ${both[1]})" \
      "| $(steady 'gradient sums' 1 ${both[0]}) | $(steady 'gradient sums' 1 ${both[1]}) |"
  done
} >"$new/flat.md"
{
  echo '| turns | devices | activations in a time step | visits of a stage in a time step |'
  echo '| --- | --- | --- | --- |'
  counted() {  # counted TURNS DEVICES CHANGE BACKWARD FLAGS...: 40 updates of a changed plan
    local said
    said=$(plan show $dance --steps 40 | sed -E "$3" | plan verify - --time-steps --backward "${@:4}")
    echo "| $1 | $2 | $(sed -n 's/^activations  *//p' <<<"$said")" \
      "| $(sed -n 's/^visits of a stage  *//p' <<<"$said") |"
  }
  none='1s/ stagger 2//; s/ ?0t[0-9]+[<>][0-9]+//g'
  first='1s/stagger 2/stagger 1/; s/ 0t([4-9]|[0-9]{2,})[<>][0-9]+//g'
  counted 'at every microbatch' 'alike' '' 1
  counted 'none' 'alike' "$none" 1
  counted 'at every microbatch' 'one 10% slower' '' 1 --slowness 1,1.1,1,1
  counted 'in the first update' 'one 10% slower' "$first" 1 --slowness 1,1.1,1,1
  counted 'at every microbatch' 'backward = 2 forwards' '' 2
} >"$new/turns.md"
{
  echo '| `plan ... --stages 8` | sums sent in a time step | activations and sums on rank 0 to 7, at most |'
  echo '| --- | --- | --- |'
  kept() {  # kept FLAGS...: counted in the order of each row, in four updates of the middle
    plan show "$@" --steps 8 | awk 'NR > 1 {
      alive = most = 0
      for (i = 1; i <= NF; ++i) {
        match($i, /[A-Za-z]/); op = substr($i, RSTART, 1); rest = substr($i, RSTART + 1)
        if (op == "F") update = int(rest / 8)
        if (op == "F" || op == "B" || (op == "p" && rest ~ /</)) ++alive
        if (op == "R" || op == "S" || (op == "p" && rest ~ />/ && rest % 8 != 7)) --alive
        if (update >= 2 && update <= 5 && alive > most) most = alive
        if (op == "B") --alive
      }
      printf "%s%d", (NR > 2 ? " " : ""), most }'
  }
  for schedule in cyclic-v2 cyclic-v1; do
    for gap in 2 3; do
      size="--schedule $schedule --stages 8 --gap $gap"
      echo "| \`--schedule $schedule --gap $gap --backward $((gap - 1))\`" \
        "| $(steady 'gradient sums' $((gap - 1)) $size) | $(kept $size) |"
    done
  done
} >"$new/timetable.md"
each_step() {  # each_step FLAGS...: messages of an update without the ends of a plan
  { fact messages "$@" --steps 8; fact messages "$@" --steps 7; } | tr ',' '\n' |
    awk '{ if (seen[$2]++) count[$2] -= $1; else { count[$2] = $1; order[++n] = $2 } }
      END { for (i = 1; i <= n; ++i) {
        if (order[i] == "" || !count[order[i]]) continue
        printf "%s%d %s", (some++ ? ", " : ""), count[order[i]], order[i] }
        if (!some) printf "none" }'
}
{
  echo '| `--setting` | ranks | kept by each rank | alive in all | messages an update |'
  echo '| --- | --- | --- | --- | --- |'
  for setting in one-device data pipeline model zero; do
    size="$dance --setting $setting"
    echo "| $setting | $(fact ranks $size) | $(fact 'peak forwards' $size --steps 8)" \
      "| $(steady activations 1 $size) | $(each_step $size) |"
  done
} >"$new/settings.md"
{
  echo '| latency of a message | `data` | `cyclic-v2`, data | pipeline | model | zero |'
  echo '| --- | --- | --- | --- | --- | --- |'
  longer() {
    awk -v a="$(makespan "$@" --steps 9)" -v b="$(makespan "$@" --steps 7)" \
      'BEGIN { print (a - b) / 2 " s" }'
  }
  for latency in 0 0.1 0.5; do
    size="--backward 1 --latency $latency --activation-bytes 1 --weight-bytes 1"
    row="| $latency s | $(longer $side_by_side $size) |"
    for setting in data pipeline model zero; do
      row+=" $(longer $dance --setting $setting $size) |"
    done
    echo "$row"
  done
} >"$new/latency.md"
refused() {  # refused NAME, then flags a line: what plan says to them
  local said flags
  echo '| plan show ... | what it says |'
  echo '| --- | --- |'
  while read -r flags; do
    if said=$(plan show $flags 2>&1 >/dev/null); then
      echo "figures.sh: not refused: $flags" >&2; exit 1
    fi
    echo "| \`$flags\` | ${said#error: } |"
  done
}
refused >"$new/cyclic_refused.md" <<'END'
--schedule cyclic-v2 --stages 4 --clip
--schedule cyclic-v2 --stages 4 --setting model --tied
--schedule cyclic-v1 --stages 4 --data-parallel 2
--schedule cyclic-v1 --stages 4 --microbatches 8
END

# ---- 09: ZeRO
for zero in 1 3; do
  quote zero_$zero show --schedule data --data-parallel 2 --stages 3 --zero $zero
done
slow_links='--forward 1 --backward 2 --weight-bytes 1000000 --bandwidth 1e6 --reduction ring'
draw zero_3 $side_by_side --zero 3 $slow_links --lanes versions
{
  echo '| | messages an update | sent by all ranks, in phi | by each rank | by all in one time step |'
  echo '| --- | --- | --- | --- | --- |'
  sent() { plan verify "$@" --json | sed -n 's/^  "bytes": \([0-9]*\).*/\1/p'; }
  volume() {  # volume NAME FLAGS...: of four stages that have a quarter of phi each
    local size="${*:2} --backward 1 --weight-bytes 250000"
    echo "| $1 | $(each_step $size)" \
      "$(awk -v a="$(sent $size --steps 8)" -v b="$(sent $size --steps 7)" \
        'BEGIN { printf "| %g | %g |", (a - b) / 1e6, (a - b) / 4e6 }')" \
      "$(plan verify $size --steps 8 --json | tr -d ' \n' | sed 's/.*"time_steps":{[^}]*"bytes":\[\([0-9,]*\)\].*/\1/' |
        awk -F, '{ for (i = 1; i <= NF; ++i) { if (i == 1 || $i < low) low = $i; if ($i > high) high = $i }
          printf "%g to %g |", low / 1e6, high / 1e6 }')"
  }
  volume 'plain' $side_by_side
  for zero in 1 2 3; do volume "\`--zero $zero\`" $side_by_side --zero $zero; done
  volume '`cyclic-v2 --setting zero`' $dance --setting zero
} >"$new/volumes.md"
# A sum that is dropped one backward later lets that backward begin while the sum is reduced.
later_drops() {
  awk 'NR == 1 { print; next }
    { out = held = ""
      for (i = 1; i <= NF; ++i) {
        if ($i ~ /Dp/) { held = held " " $i; continue }
        if ($i ~ /S/) { out = out held; held = "" }
        out = out " " $i
        if ($i ~ /B/) { out = out held; held = "" }
      }
      print substr(out, 2) }'
}
{
  echo '| | time of an update | whole gradient sums that a rank has at a time |'
  echo '| --- | --- | --- |'
  zero_time() {  # zero_time NAME CHANGE FLAGS...
    local steps seconds=() sums
    for steps in 9 7; do
      seconds+=("$(plan show $side_by_side "${@:3}" --steps $steps | $2 | makespan $slow_links -)")
    done
    sums=$(plan show $side_by_side "${@:3}" --steps 1 | $2 | sed -n 2p | tr ' ' '\n' |
      awk '/B/ { if (++alive > most) most = alive } /Dp|S/ { if (alive > 0) --alive } END { print most }')
    echo "| $1 | $(awk -v a="${seconds[0]}" -v b="${seconds[1]}" 'BEGIN { print (a - b) / 2 " s" }') | $sums |"
  }
  for zero in 0 1 2 3; do zero_time "\`--zero $zero\`" cat --zero $zero; done
  for zero in 2 3; do
    zero_time "\`--zero $zero\`, each sum dropped one backward later" later_drops --zero $zero
  done
} >"$new/zero_times.md"
refused >"$new/zero_refused.md" <<'END'
--schedule 2bw --stages 4 --data-parallel 2 --zero 2
--schedule data --stages 4 --zero 1
--schedule cyclic-v2 --stages 4 --zero 1
--schedule pipedream --stages 4 --data-parallel 2 --zero 1 --clip --tied
END

# ---- 10: fewer bits on the wire
quote codec show --schedule data --data-parallel 2 --stages 2 --codec quantize:4
# Four ranks, a second forward and two backward; f32 sums take nine, all at once or in parts.
encoded() {  # encoded PARTS BITS_A_VALUE
  awk -v n="$1" -v bits="$2" 'BEGIN {
    print "--schedule data --data-parallel 4 --bandwidth 1e6 --reduction ring --stages", n, "--forward", 1 / n,
      "--backward", 2 / n, "--weight-bytes", int(6e6 / n * bits / 32) }'
}
draw encoded_32 $(encoded 4 32) --width 971 --seconds 10.5
draw encoded_4 $(encoded 4 4.0625) --width 971 --seconds 10.5
{
  echo '| `--codec` | bits a value | a step, one sum | times as fast | a step, four sums | times as fast |'
  echo '| --- | --- | --- | --- | --- | --- |'
  faster() { awk -v a="$1" -v b="$2" 'BEGIN { printf "| %.2f s | %.2f", b, a / b }'; }
  while read -r codec bits; do
    echo "| \`$codec\` | $bits" \
      "$(faster $(makespan $(encoded 1 32)) $(makespan $(encoded 1 $bits)))" \
      "$(faster $(makespan $(encoded 4 32)) $(makespan $(encoded 4 $bits))) |"
  done <<'END'
none 32
bf16 16
quantize:8 8.0625
quantize:4 4.0625
quantize:2 2.0625
topk:0.01 0.64
END
} >"$new/codec_times.md"
refused >"$new/codec_refused.md" <<'END'
--schedule data --codec quantize:4
--schedule gpipe --stages 4 --codec quantize:4
--schedule data --data-parallel 4 --codec-channel topk:0.1
--schedule cyclic-v2 --stages 4 --codec lowrank:4
--schedule 1f1b --stages 4 --codec-channel lowrank:4
--schedule 1f1b --stages 4 --codec-channel adaptive
--schedule data --data-parallel 4 --codec quantize:9
END

# ---- 13: devices
quote devices show --schedule 2bw --stages 2 --data-parallel 2 --microbatches 1 --steps 2

# ---- 14: what is said before a schedule or a codec is in its register
{
  echo '```'
  for flags in '--schedule late-weights --stages 4' '--schedule data --data-parallel 2 --codec sign'; do
    echo "\$ build/bin/plan show $flags"
    plan show $flags 2>&1 || true  # once a reader has added it, this is its plan
  done
  echo '```'
} >"$new/not_added.md"

# ---- 15: lost ranks
three='--stages 4 --data-parallel 3 --microbatches 6'  # forwards and parts of backwards: 1 s each
draw three_pipelines --schedule 1f1b $three --backward 2 --width 900 --seconds 28
draw recycle --schedule recycle $three --lost 5 --in-flight 8 --backward 2 --width 900 --seconds 28
quote recycle_small show --schedule recycle --stages 2 --data-parallel 2 --microbatches 2 --lost 1
{
  echo '| ranks lost | what the others run | ranks | an update | busy | microbatches kept by a rank |'
  echo '| --- | --- | --- | --- | --- | --- |'
  left() {  # left LOST FLAGS...: an update in the middle of a run
    local size="${*:2} --backward 2"
    echo "| $1 | \`${*:2}\` | $(plan show ${*:2} | grep -c F)" \
      "| $(awk -v five="$(seconds 5 $size)" -v four="$(seconds 4 $size)" 'BEGIN { print five - four }') s" \
      "| $(plan verify --json $size --steps 1 | sed -n 's/^  "bubble": \([0-9.e+-]*\),*$/\1/p' |
        awk '{ printf "%.0f%%", 100 * (1 - $1) }')" \
      "| $(fact 'peak forwards' ${*:2} | tr ' ' '\n' | grep -x '[0-9]*' | sort -n | tail -n 1) |"
  }
  left none --schedule 1f1b $three
  left '5: its pipeline stops' --schedule 1f1b --stages 4 --data-parallel 2 --microbatches 9
  for kept in 4 6 8; do left 5 --schedule recycle $three --lost 5 --in-flight $kept; done
  left '5 and 10' --schedule recycle $three --lost 5,10 --in-flight 8
  left '5 and 9, peers' --schedule recycle $three --lost 5,9 --in-flight 8
} >"$new/recycle.md"

# ---- 00: the spine, each file with its lines and the first sentence of its first comment; an arrow
# marks the files of its path
first_sentence() {  # first_sentence FILE
  awk '!/^\/\// { exit } { sub(/^\/\/ */, ""); text = text (NR > 1 ? " " : "") $0 }
    END { sub(/\.( .*)?$/, "", text); print text }' "$1"
}
{
  lines=0 files=0 path=" $(sed -n 's/^# path //p' tests/spine.txt | tr '\n' ' ')"
  printf '| file | lines | contents |\n| --- | --- | --- |\n'
  while read -r file; do
    case $file in
      '# ---- '*) echo "| **${file#\# ---- }** | | |" ;;
      '#'*) ;;
      *)
        count=$(wc -l <"$file")
        lines=$((lines + count)) files=$((files + 1))
        mark=''
        [[ $path != *" $file "* ]] || mark='→ '
        echo "| $mark[\`$file\`](../$file) | $count | $(first_sentence "$file") |"
        ;;
    esac
  done <tests/spine.txt
  echo "| **$files files** | **$lines** | |"
} >"$new/spine.md"
quote language show --schedule 1f1b --stages 2 --data-parallel 2 --microbatches 1

wrong=0
for file in "$new"/*; do
  drawn=tutorials/figures/$(basename "$file")
  [[ $file != */player.html ]] || drawn=tutorials/player.html
  if cmp -s "$file" "$drawn"; then
    :
  elif $check; then
    diff -u "$drawn" "$file" | head -n 20 || true
    wrong=1
  else
    cp "$file" "$drawn"
    echo "wrote $drawn"
  fi
done
[[ $wrong -eq 0 ]] || echo "figures.sh: the figures are not what plan draws; run tutorials/figures.sh" >&2
exit $wrong
