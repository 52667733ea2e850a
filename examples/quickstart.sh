#!/usr/bin/env bash
# From a fresh machine to text written by a GPT that was trained here, in a few minutes on two cores.
# Installs what is missing by apt-get, builds in build/, and trains in build/quickstart/.
# Its flags are those of train_gpt, and replace the defaults below:
#   examples/quickstart.sh --steps 500 --data my_text.txt
# It replaces the run of an earlier quickstart; to keep both, name another folder with --out.
set -euo pipefail

if [[ " $* " == *" --help "* || " $* " == *" -h "* ]]; then
  sed -n '2,6s/^# //p' "$0"
  echo "All flags: build/bin/train_gpt --help, once this script has built it."
  exit 0
fi

programs=(plan train_gpt sample_gpt report checkpoint pipeline elastic)
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

if [[ $out == "$build/quickstart/run" && " $* " != *" --resume"* ]]; then
  flags+=(--overwrite)
  [[ ! -e $out ]] || echo "Replaces the run in $out; to keep it, name another folder with --out"
fi

for folder in "$root" "$build"; do
  [[ ! -e $folder || -w $folder ]] || {
    echo "quickstart.sh: cannot write to $folder; clone plangrad to a folder of your own" >&2
    exit 1
  }
done

step "Installing what is missing"
"$root/examples/install_packages.sh"
"$root/examples/install_packages.sh" --text 2>/dev/null || true  # make_corpus.sh has another text

# The first build goes without the emulator of GPUs, which takes as long as all else.
settings=()
[[ -f $build/CMakeCache.txt ]] || settings=(-DPLANGRAD_EMULATOR=OFF)
step "Building ${programs[*]} in $build/bin: once, two to six minutes on two cores"
(cd "$root" && cmake --preset release "${settings[@]}" >"$build.log" 2>&1) || {
  cat "$build.log" >&2
  exit 1
}
grep -o ' CUDA: .*' "$build.log"
rm -f "$build.log"
cmake --build "$build" -j "$(nproc)" --target "${programs[@]}"

step "Making a text to train on"
"$root/examples/data/make_corpus.sh" "$corpus"

step "Training: train_gpt ${flags[*]} $*"
"$build/bin/train_gpt" "${flags[@]}" "$@"

step "A sample of what the model writes: sample_gpt --from $out"
"$build/bin/sample_gpt" --from "$out" "${sample[@]}"

step "Done: losses, settings and the checkpoint are in $out"
echo "How the training went: $out/report.html"
echo "The plan as it ran, to play with: $out/plan.html"
echo "Open them in a browser. More text: $build/bin/sample_gpt --from $out"
echo "To read next: $root/tutorials/00-map.md"
