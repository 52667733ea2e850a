#!/usr/bin/env bash
# Writes down what must stay the same when code only moves: losses, bytes sent and peaks of twelve
# runs, and the plans, facts and simulated times of a grid of layouts.
#   tests/record_runs.sh BIN TEXT OUT     BIN: the folder of programs, TEXT: a file to train on
# Two builds agree if `diff -r` finds nothing between what they wrote but in timing.txt, which has
# the peaks that depend on how threads meet: those of activations and messages, and, where sums go
# from rank to rank, of gradients.
set -euo pipefail
[[ $# -eq 3 ]] || { sed -n '2,7s/^# //p' "$0"; exit 2; }
bin=$(realpath "$1") text=$(realpath "$2") out=$3
[[ ! -d $out || -z $(ls -A "$out") || -f $out/timing.txt ]] ||
  { echo "record_runs.sh: $out holds something else; name another folder" >&2; exit 2; }
mkdir -p "$out"
out=$(realpath "$out")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
head -c 20000 "$text" >"$work/text"
rm -f "$out"/*.txt

run() {  # run NAME FLAGS...
  local name=$1 folder=$work/$1
  "$bin/train_gpt" --data "$work/text" --layers 4 --heads 2 --width 32 --context 16 --batch 24 \
    --steps 24 --evaluate-every 10 --quiet --out "$folder" "${@:2}" >"$work/log" 2>&1 ||
    { echo "$name failed: $(cat "$work/log")" >&2; exit 1; }
  python3 - "$folder" "$name" "$out" <<'end'
import json, sys
folder, name, out = sys.argv[1:]
stable = ["weights", "optimizer"] + (["gradients"] if "cyclic" not in name else [])
with open(f"{out}/{name}.txt", "w") as file:
    for line in open(f"{folder}/metrics.jsonl"):
        entry = json.loads(line)
        # In a plan whose pipeline stays full, how many bytes count for one update depends on when
        # rank 0 hears of it: only their sum, below, is the same in each run.
        wanted = ["step", "loss", "gradient_norm", "validation_loss", "kept", "bits"]
        endless = name.startswith(("2bw", "pipedream", "cyclic")) or name == "quantize_zero_1"
        wanted += [] if endless else ["bytes_sent"]
        kept = [k for k in wanted if k in entry]
        print(*(f"{k} {entry[k]!r}" for k in kept), file=file)
    summary = json.load(open(f"{folder}/summary.json"))
    print("bytes", sorted(summary["bytes_sent"].items()), file=file)
    for peaks in summary["peak_bytes"]:
        print("peaks", {k: peaks[k] for k in stable}, file=file)
with open(f"{out}/timing.txt", "a") as file:
    print(name, *({k: v for k, v in p.items() if k not in stable} for p in summary["peak_bytes"]),
          file=file)
end
}

run data --ranks 4 --schedule data --microbatches 2
run gpipe --schedule gpipe --stages 2 --data-parallel 2 --microbatches 4
run 1f1b_recompute --schedule 1f1b --stages 4 --microbatches 8 --recompute
run 2bw_bf16 --schedule 2bw --stages 4 --microbatches 4 --dtype bf16
run pipedream --schedule pipedream --stages 3 --microbatches 4 --clip 0
run cyclic_v1 --schedule cyclic-v1 --stages 4
run cyclic_v2_model --schedule cyclic-v2 --setting model --stages 3 --untied
run cyclic_v2_zero --schedule cyclic-v2 --setting zero --stages 3 --untied
run zero_3 --ranks 4 --schedule data --zero 3 --reduction ring
run quantize_zero_1 --schedule 2bw --stages 2 --data-parallel 2 --zero 1 --codec quantize:4
run topk_channel --schedule 1f1b --stages 3 --microbatches 4 --codec-channel topk:0.25 --dropout 0.1
run samo_adaptive --schedule data --ranks 2 --codec adaptive:64:5 --prune 0.8 --samo \
  --prune-method magnitude --prune-after 8

plan() {  # plan FLAGS...: one layout's plan, facts and simulated times, or why it is refused
  echo "== $*"
  "$bin/plan" show "$@" >"$work/plan" 2>&1 || { cat "$work/plan"; return 0; }
  cat "$work/plan"
  "$bin/plan" simulate --forward 1 --backward 2 --step 0.1 --latency 0.05 --bandwidth 1000 \
    --activation-bytes 40 --weight-bytes 300 --json "$work/plan" 2>&1 || true
  "$bin/plan" draw "$work/plan" 2>&1 || true
}
{
  for schedule in data gpipe 1f1b 2bw pipedream message-driven; do
    for shape in "1 1 1" "1 3 2" "2 1 4" "3 2 3" "4 1 8"; do
      read -r stages width microbatches <<<"$shape"
      for more in "" --tied --clip --recompute "--zero 1" "--zero 3" "--clip --tied --first 2"; do
        # shellcheck disable=SC2086
        plan --schedule "$schedule" --stages "$stages" --data-parallel "$width" \
          --microbatches "$microbatches" --steps 3 $more
      done
    done
  done
  for schedule in cyclic-v1 cyclic-v2; do
    for setting in one-device data pipeline model zero; do
      for stages in 2 3 4; do
        for more in "" --clip --recompute "--gap 1" "--first 3"; do
          # shellcheck disable=SC2086
          plan --schedule "$schedule" --setting "$setting" --stages "$stages" --steps 3 $more
        done
      done
    done
  done
} >"$out/plans.txt"
