#!/usr/bin/env bash
# Fine-tunes a small GPT-2 over four ranks, prunes 80% of its matrices meanwhile, sends its gradient
# sums in 4 bits, and lets it write before and after: a minute on two free cores. It needs what
# examples/quickstart.sh builds, and then: cmake --build build --target train_vocabulary
# The GPT-2 is made here, in Hugging Face's layout: nothing is downloaded. A real one works alike:
#   examples/demo.sh [--model FOLDER] [--out DIR] [--quick]
# --model: a GPT-2 in Hugging Face's layout; --quick: a few updates, to see whether all runs
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
bin=${PLANGRAD_BIN:-$root/build/bin}
out=runs/demo model="" updates=1500 first_updates=800 characters=1500000
usage() { sed -n '2,7s/^# //p' "$0"; exit "$1"; }
while [[ $# -gt 0 ]]; do
  case $1 in
    --model) model=${2:?--model needs a folder}; shift 2 ;;
    --out) out=${2:?--out needs a folder}; shift 2 ;;
    --quick) updates=6 first_updates=3 characters=200000; shift ;;
    -h | --help) usage 0 ;;
    *) echo "demo.sh: unknown argument '$1'" >&2; usage 2 >&2 ;;
  esac
done
for program in $([[ -n $model ]] || echo train_vocabulary) train_gpt sample_gpt; do
  [[ -x $bin/$program ]] ||
    { echo "demo.sh: there is no $bin/$program; after examples/quickstart.sh, build it:" \
      "cmake --build $root/build --target $program" >&2; exit 2; }
done

step() { printf '\n== %s\n' "$*"; }
show() {  # show COMMAND...: prints it so that it can be copied, and runs it
  local word line='$'
  for word in "${@/#$bin\//build/bin/}"; do
    [[ $word =~ ^[[:alnum:]_./:,=+-]+$ ]] && line+=" $word" || line+=" ${word@Q}"
  done
  echo "$line"; "$@"
}
write() {
  show "$bin/sample_gpt" --from "$1" --prompt "And the king said" --tokens 60 --temperature 0.8 \
    --top-k 40 --seed 1
}
[[ $out == runs/demo ]] && again=--overwrite || again=  # what an earlier demo left
mkdir -p "$out"

step "A text to learn from"
"$root/examples/data/make_corpus.sh" "$out/all.txt"
head -c "$characters" "$out/all.txt" | iconv -c -f UTF-8 -t UTF-8 >"$out/text.txt"

if [[ -z $model ]]; then
  model=$out/gpt2
  step "A GPT-2 to begin with: 4 layers of width 128, $first_updates updates on one rank"
  head -c "$((characters / 5))" "$out/text.txt" | iconv -c -f UTF-8 -t UTF-8 >"$out/first.txt"
  show "$bin/train_vocabulary" --data "$out/first.txt" --size 800 --out "$out/vocabulary" \
    $again
  show "$bin/train_gpt" --data "$out/first.txt" --vocab "$out/vocabulary/vocab.json" --layers 4 \
    --heads 4 --width 128 --context 64 --batch 8 --steps "$first_updates" --learning-rate 2e-3 \
    --out "$out/first" $again
  show "$bin/sample_gpt" --from "$out/first" --export "$model"
  ls -l "$model" | awk 'NF > 8 { printf "%12s  %s\n", $5, $9 }'
fi

step "What it writes"
write "$model"

step "Fine-tuning over four ranks: two pipelines of two stages, 4-bit sums, 80% pruned step by step"
show "$bin/train_gpt" --from "$model" --data "$out/text.txt" --ranks 4 --stages 2 \
  --data-parallel 2 --microbatches 2 --batch 8 --steps "$updates" --learning-rate 1e-3 \
  --codec quantize:4 --prune 0.8 \
  --prune-method gradual --prune-after "$((updates / 6))" --prune-every "$((updates / 6))" \
  --prune-until "$((updates / 2))" --samo --out "$out/tuned" $again

step "What it writes now, with a fifth of its weights"
write "$out/tuned"

step "Done"
echo "How the training went: $out/tuned/report.html"
echo "The model for Hugging Face's transformers: $out/tuned/huggingface"
