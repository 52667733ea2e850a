#!/usr/bin/env bash
# Runs the commands of README.md, RESULTS.md, BUILDING.md and the chapters, in a folder that looks as
# a clone does after examples/quickstart.sh:
#   tests/commands.sh BIN          BIN: the folder of the built programs; prints each command
# A command is in a fence that begins with ```sh. Training runs make 3 updates, and 3 more when they
# are resumed. Tests and benchmarks are looked up, not run. A second word after ```sh names a need
# that this test does not meet: gpu, hosts (several machines), build (minutes). The programs of such
# a command are looked up, too. With the word fails, the command has to end with an error. A command
# outside of such a fence fails the test.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
bin=$(cd "${1:?usage: tests/commands.sh BIN}" && pwd)
documents=("$root"/README.md "$root"/RESULTS.md "$root"/BUILDING.md "$root"/tutorials/*.md)

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/build/quickstart"
ln -s "$bin" "$folder/build/bin"
for name in examples tests tutorials parallel CMakePresets.json LICENSE; do
  ln -s "$root/$name" "$folder/$name"
done
cd "$folder"
head -c 60000 "$root"/tutorials/0[1-3]*.md >build/quickstart/corpus.txt
export OMP_NUM_THREADS=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
# The mpirun of this build. MPICH's starts more ranks than cores without a flag, and knows none.
mpirun=$(sed -n 's/^MPIEXEC_EXECUTABLE:FILEPATH=//p' "$bin/../CMakeCache.txt" 2>/dev/null || true)
mpirun=${mpirun:-mpirun}

# The commands of a document, one a line, after the line and the needs that they have.
commands='
/^ *```/ { open = !open; fence = $0; sub(/^ *```/, "", fence); next }
open && fence ~ /^sh( |$)/ {
  line = $0
  sub(/^ */, "", line)
  if (command == "") start = FNR
  command = command line
  if (sub(/\\$/, "", command)) next
  sub(/ +# .*$/, "", command)
  if (command !~ /^ *(#|$)/) {
    split(fence, words, " ")
    print start "\t" (words[2] == "" ? "-" : words[2]) "\t" command
  }
  command = ""
  next
}
!open && /^    (build\/bin|examples|tests|tutorials|mpirun|cmake|ctest)[\/ ]/ { print FNR "\tstray\t" $0 }'

failed=0
fail() {
  printf 'FAILED %s\n' "$*"
  failed=1
}
look_up() {  # look_up WHERE COMMAND: whether its programs, presets, targets and tests exist
  local word words
  read -ra words <<<"$2"
  for word in "${words[@]}"; do
    case $word in
      build-*/* | build/checked/*) ;;  # another preset's folder, which this build does not make
      build/bin/benchmarks/*)  # tests/run.sh does not build them
        [[ -f tests/${word#build/bin/}.cpp ]] || fail "$1: there is no $word" ;;
      build/bin/tests_cuda_checked) [[ -d tests/cuda/checked ]] || fail "$1: there is no $word" ;;
      build/bin/* | examples/*.sh | tests/*.sh) [[ -x $word ]] || fail "$1: there is no $word" ;;
    esac
  done
  if [[ $2 =~ --preset[=\ ]+([a-z]+) ]] &&
    ! grep -q "\"name\": \"${BASH_REMATCH[1]}\"" CMakePresets.json; then
    fail "$1: there is no preset ${BASH_REMATCH[1]}"
  fi
  if [[ $2 =~ ^ctest.*-R\ +\"?([^\"]*)\"? ]] &&
    ! ctest --test-dir "$bin/.." -N -R "${BASH_REMATCH[1]}" | grep -qE 'Total Tests: [1-9]'; then
    fail "$1: no test is called ${BASH_REMATCH[1]}"
  fi
}
run() {  # run WHERE COMMAND [fails]
  local status=0
  timeout 120 bash -euo pipefail -c "$2" >output 2>&1 </dev/null || status=$?
  if [[ ${3:-}:$status != :0 && ${3:-}:$status != fails:1 ]]; then
    fail "$1: $2"
    tail -n 15 output
  fi
}

# The run that the quickstart leaves.
run quickstart "build/bin/train_gpt --data build/quickstart/corpus.txt --vocab chars --layers 1 \
  --heads 2 --width 16 --context 64 --batch 4 --steps 3 --overwrite --out build/quickstart/run"

count=0
for document in "${documents[@]}"; do
  while IFS=$'\t' read -r line needs command; do
    where=${document#"$root"/}:$line
    [[ $needs == stray ]] && { fail "$where: this command stands outside of a fence of sh"; continue; }
    count=$((count + 1))
    echo "$where: $command"
    case $needs:$command in
      gpu:* | hosts:* | build:* | *:cmake* | *:ctest* | *quickstart.sh* | *build/bin/tests_* | \
        *build/bin/benchmarks/*) look_up "$where" "$command" ;;
      fails:* | *--lose*) run "$where" "$command" "${needs#-}" ;;  # with all its updates
      *--resume*) run "$where" "$command --steps 6" ;;
      *mpirun*)
        if command -v "$mpirun" >/dev/null; then
          [[ $("$mpirun" --version) != *HYDRA* ]] || command=${command/ --oversubscribe/}
          run "$where" "${command/mpirun/$mpirun} --steps 3 --overwrite"
        else
          echo "skipped: this machine has no mpirun"
        fi ;;
      *train_gpt* | *train_resnet*) run "$where" "$command --steps 3 --overwrite" ;;
      *train_vocabulary*) run "$where" "$command --overwrite" ;;  # chapters name some folders twice
      *) run "$where" "$command" ;;
    esac
  done < <(awk "$commands" "$document")
done
echo "$count commands"
exit $failed
