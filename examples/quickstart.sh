#!/usr/bin/env bash
# From a fresh machine to text written by a GPT that was trained here, in a few minutes on two cores.
# Flags of this script are flags of train_gpt and win over the defaults below:
#   examples/quickstart.sh --steps 500 --data my_text.txt
set -euo pipefail

if [[ " $* " == *" --help "* || " $* " == *" -h "* ]]; then
  sed -n '2,4s/^# //p' "$0"
  echo "All flags: build/bin/train_gpt --help, once this script has built it."
  exit 0
fi

programs=(plan train_gpt sample_gpt train_resnet train_vocabulary pipeline)
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$root/build
corpus=$build/quickstart/corpus.txt
out=$build/quickstart/run

# A model and a length of training that take about a minute on two cores: two pipelines of two
# stages, four ranks in one process.
defaults=(
  --ranks 4 --stages 2 --microbatches 3
  --data "$corpus" --vocab chars --out "$out"
  --layers 4 --heads 4 --width 128 --context 64 --batch 12
  --steps 2000 --learning-rate 1e-3 --min-learning-rate 1e-4
)
sample=(--tokens 400 --temperature 0.8 --top-k 40 --seed 1)

step() { printf '\n== %s\n' "$*"; }

# The defaults that the user's flags leave standing; and the folder that the run will write to.
flags=()
for ((i = 0; i < ${#defaults[@]}; i += 2)); do
  [[ " $* " == *" ${defaults[i]}"[\ =]* ]] || flags+=("${defaults[@]:i:2}")
done
for ((i = 1; i <= $#; i++)); do
  case ${!i} in
    --out) next=$((i + 1)); out=${!next:-$out} ;;
    --out=*) out=${!i#--out=} ;;
  esac
done

step "Installing what is missing"
"$root/examples/install_packages.sh"

step "Building ${programs[*]} in $build/bin"
(cd "$root" && cmake --preset release >"$build.log" 2>&1) || {
  cat "$build.log" >&2
  exit 1
}
grep -o ' CUDA: .*' "$build.log"
rm -f "$build.log"
cmake --build "$build" -j "$(nproc)" --target "${programs[@]}"

step "Making a corpus of paragrad's own chapters and sources: $corpus"
# By checksum the files come in an order that mixes prose and code, so that the last tenth, on which
# train_gpt validates, is like the rest.
mkdir -p "$(dirname "$corpus")"
(cd "$root" && find README.md tutorials autograd nn parallel sparse cuda examples tests -type f \
  \( -name '*.md' -o -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) \
  -exec cksum {} + 2>/dev/null || true) | sort -n | while read -r _ _ file; do
  cat "$root/$file"
done >"$corpus"
echo "$(wc -c <"$corpus") characters"

step "Training: train_gpt ${flags[*]} $*"
"$build/bin/train_gpt" "${flags[@]}" "$@"

step "A sample of what the model writes: sample_gpt --from $out"
"$build/bin/sample_gpt" --from "$out" "${sample[@]}"

step "Drawing the plan of a pipeline"
"$build/bin/plan" draw --schedule 1f1b --stages 4 --microbatches 8 --out "$build/quickstart/plan.html"

step "Done: losses, settings and the checkpoint are in $out"
echo "To look at in a browser: $out/report.html and $build/quickstart/plan.html"
echo "More text: $build/bin/sample_gpt --from $out"
echo "To read next: $root/tutorials/00-map.md"
