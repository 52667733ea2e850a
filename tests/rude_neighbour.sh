#!/usr/bin/env bash
# Runs that meet in one folder: a run that is resumed while its session before ends, and one that is
# resumed from a folder in which another trains on. No update may be lost and no checkpoint be of
# two updates, whatever the moment.
#   tests/rude_neighbour.sh BIN [TRIES]
set -euo pipefail
bin=$(realpath "$1") tries=${2:-5}
here=$(mktemp -d) neighbour=
trap '[[ -z $neighbour ]] || kill -KILL "$neighbour" 2>/dev/null || true; rm -rf "$here"' EXIT
cd "$here"
export OMP_NUM_THREADS=1
seq 1 12000 > t.txt
fail() { echo "FAILED: $*"; exit 1; }
newest() { "$bin/checkpoint" list "$1" | sed -n '1s/update \([0-9]*\):.*/\1/p'; }

# A session saves as it ends, and another begins meanwhile: it is refused, or continues from there.
refused=0
large="--data t.txt --layers 2 --heads 4 --width 512 --context 8 --batch 1 --evaluate-every 0 --quiet"
"$bin/train_gpt" $large --steps 100000 --stop-after 3 --out X
for ((i = 0; i < tries; i++)); do
  "$bin/train_gpt" --resume X --quiet 2> first.txt &
  neighbour=$!
  sleep 1.$((RANDOM % 10))
  kill -TERM "$neighbour"
  sleep $((RANDOM % 3)).$((RANDOM % 10))
  before=$(newest X)
  if "$bin/train_gpt" --resume X --quiet --stop-after 1 2> second.txt; then
    after=$(newest X)
  else
    grep -q "another run writes to" second.txt || fail "$(cat second.txt)"
    refused=$((refused + 1)) after=
  fi
  wait "$neighbour" || true
  neighbour=
  last=$(newest X)
  ((last >= before)) || fail "update $before was saved, and now the newest is $last"
  [[ -z $after ]] || ((last >= after && after > before)) || fail "after $before and $after, $last"
done
echo "$tries sessions began while another ended: $refused refused, none lost an update"

# Four ranks resume from a run that saves each update and deletes the older ones.
small="--data t.txt --layers 2 --heads 2 --width 32 --context 32 --batch 4 --evaluate-every 0 --quiet"
"$bin/train_gpt" $small --ranks 4 --stages 4 --microbatches 4 --steps 1000000 --save-every 1 \
  --out S 2> training.txt &
neighbour=$!
until [[ -e S/checkpoint/manifest.json ]]; do sleep 0.1; done
for ((i = 0; i < tries; i++)); do
  rm -rf Y
  "$bin/train_gpt" --resume S --out Y --quiet --stop-after 1 2> resumed.txt || fail "$(cat resumed.txt)"
  "$bin/checkpoint" verify Y > verified.txt || fail "$(cat verified.txt)"
  for _ in {1..20}; do "$bin/checkpoint" list S; done > listed.txt
  ! grep "NOT READ" listed.txt || fail "a checkpoint that was removed meanwhile is listed"
done
kill -0 "$neighbour" || fail "the run that was resumed from ended: $(cat training.txt)"
kill -TERM "$neighbour"
wait "$neighbour" || true
neighbour=
echo "$tries runs began from a run that trains on: each of one update, all intact"
