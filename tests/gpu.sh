#!/usr/bin/env bash
# Does all that a machine with a GPU is needed for: tests kernels, training and transports there, measures,
# and writes what came out to a folder, as text and JSON, and to one archive.
#   gpu.sh [OPTION...] [STEP...]
# Steps, the most telling first (all without one): build training tests training_50304 kernel_rates
# kernels_of_a_step ladder pytorch training_graph training_4 training_64 training_f32 training_tf32
# training_zipf memcheck racecheck
#   --out DIR      where results go (default: tests/benchmarks/results/gpu_NAME, by the GPU's name);
#                  the archive is DIR.tar.gz, or where --archive FILE says; it grows with each step
#   --seconds N    ends after so long: a step that has no time left is not begun, or is stopped
#   --resume       goes on where an earlier call with this --out ended
#   --build DIR    where to build (default: build)
#   --no-build     the programs are there already: in the build folder, or in --bin DIR
#   --install      first installs what is missing, as BUILDING.md says
#   --emulator     tries this script without a GPU: small sizes, on the emulator, of an ordinary build
#   --pack FILE    makes an archive (.tar.gz) for a machine that has none of our packages and no network,
#                  for GPUs of one --architecture N (default: 90); see tests/gpu_pack.sh
set -uo pipefail
export LC_ALL=C  # a decimal point in times
own_library_path=${LD_LIBRARY_PATH-}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

build=$root/build bin="" out="" archive="" seconds=0 resumes=no device=cuda builds=yes installs=no
steps=() packs=()
fail() { echo "gpu.sh: $*" >&2; exit 2; }
all_steps=(build training tests training_50304 kernel_rates kernels_of_a_step ladder pytorch
  training_graph training_4 training_64 training_f32 training_tf32 training_zipf memcheck racecheck)
while [[ $# -gt 0 ]]; do
  case $1 in
    --out | --archive | --build | --bin | --seconds)
      [[ $# -gt 1 ]] || fail "$1 needs a value"
      printf -v "${1#--}" %s "$2"
      shift ;;
    --pack | --architecture | --limit) packs+=("$1" "${2-}"); shift ;;
    --no-build) builds=no ;;
    --install) installs=yes ;;
    --resume) resumes=yes ;;
    --emulator) device=emulator ;;
    -h | --help) sed -n '2,19s/^# //p' "$0"; exit 0 ;;
    *) [[ " ${all_steps[*]} " == *" $1 "* ]] || fail "unknown argument '$1'; see gpu.sh --help"
       steps+=("$1") ;;
  esac
  shift
done
if [[ ${#packs[@]} -gt 0 ]]; then
  [[ $device == cuda ]] || packs+=(--emulator --bin "${bin:-$build/bin}")
  exec "$root/tests/gpu_pack.sh" "${packs[@]}"
fi
[[ $seconds =~ ^[0-9]+$ ]] || fail "--seconds $seconds: expected a whole number"
end=$((seconds > 0 ? SECONDS + seconds - 5 : SECONDS + 1000000))
tests=tests_gpu
[[ $device == cuda ]] || tests=tests_cuda
if [[ ${#steps[@]} -eq 0 ]]; then
  steps=("${all_steps[@]}")
  [[ $builds == yes && $device == cuda ]] || steps=("${all_steps[@]:1}")
elif [[ " ${steps[*]} " == *' build '* ]]; then
  [[ $builds == yes ]] || fail "--no-build, and the step build: choose one"
  [[ $device == cuda ]] || fail "--emulator tries programs of an ordinary build:" \
    "cmake --preset release && cmake --build --preset release"
fi
bin=$(realpath -m "${bin:-$build/bin}")

# ---- what there is ---------------------------------------------------------------------------
gpu() { nvidia-smi --query-gpu="$1" --format=csv,noheader 2>/dev/null | head -n 1; }
name_of_gpu() {
  if [[ $device == emulator ]]; then echo emulator; else gpu name; fi
}
find_gpu() {
  [[ $device == emulator ]] && return
  nvidia-smi -L 2>/dev/null | grep GPU >/dev/null || ls /dev/nvidia[0-9]* >/dev/null 2>&1 ||
    fail "there is no GPU here: nvidia-smi lists none, and there is no /dev/nvidia0;" \
      "run this where one is, or try it with --emulator"
}
nvcc=$(command -v nvcc || ls "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" 2>/dev/null)

# Programs that were carried here have their libraries beside them; cuBLAS is the toolkit's, or
# PyTorch's, whichever is of the version that they were built with.
lacks() { ldd "$bin/$tests" 2>&1 | grep 'not found'; }
find_libraries() {
  local folder before=$bin/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} of_python
  export LD_LIBRARY_PATH=$before
  lacks >/dev/null || return 0
  of_python=$(python3 -c 'import nvidia; print(*nvidia.__path__)' 2>/dev/null)
  for folder in "${CUDA_HOME:-/usr/local/cuda}/lib64" ${of_python:+$of_python/*/lib}; do
    export LD_LIBRARY_PATH=$before:$folder
    lacks >/dev/null || return 0
  done
  lacks
  fail "these libraries are not here; name their folders in LD_LIBRARY_PATH, or build on this machine"
}

json_string() { sed 's/[\\"]/\\&/g; s/.*/"&"/' <<<"$1"; }
machine() {
  local commit
  commit=$(git -C "$root" describe --always --dirty 2>/dev/null || cat "$root/commit" 2>/dev/null)
  local -a facts=("gpu" "$(name_of_gpu)" "memory" "$(gpu memory.total)" "driver" "$(gpu driver_version)"
    "compiler" "$("${nvcc:-true}" --version | sed -n 's/.*release /nvcc /p')"
    "processor" "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)"
    "cores" "$(nproc --all)" "commit" "$commit" "date" "$(date -u +%F)")
  local i separator='{'
  for ((i = 0; i < ${#facts[@]}; i += 2)); do
    [[ -n ${facts[i + 1]} ]] || continue
    printf '%s: %s\n' "${facts[i]}" "${facts[i + 1]}"
    printf '%s\n  %s: %s' "$separator" "$(json_string "${facts[i]}")" \
      "$(json_string "${facts[i + 1]}")" >&3
    separator=','
  done
  printf '\n}\n' >&3
} 3>"$out/machine.json" >"$out/machine.txt"

# ---- steps -----------------------------------------------------------------------------------
left_out=77 stopped=124
left() { echo $((end - SECONDS)); }
limited() {  # limited SECONDS COMMAND...: ends it then, or when this call has to end
  local most=$1 rest
  rest=$(left)
  [[ $rest -gt 0 ]] || return $stopped
  timeout -k 5 $((most < rest ? most : rest)) "${@:2}"
}

step_build() {
  [[ $installs == no ]] || "$root/examples/install_packages.sh" --tests || return 1
  [[ -n $nvcc ]] || { echo "nvcc is neither on the PATH nor in CUDA_HOME; or use --no-build"; return 1; }
  local capability
  capability=$(gpu compute_cap)
  [[ -z $capability || ${capability%.*} -ge 8 ]] ||
    { echo "this GPU has compute capability $capability; plangrad needs 8.0 or later"; return 1; }
  limited 1800 "$root/tests/gpu_pack.sh" --build "$build" \
    ${capability:+--architecture "${capability//./}"}
}

# Tests run in one process. One that fails there is then run again, alone, so that each launch's
# error is told at that launch; so are those that a crash kept from running.
names_in() {  # names_in PROGRAM: as Catch2 2 lists them, which exits with their number, or as 3 does
  local names
  names=$("$bin/$1" --list-test-names-only 2>/dev/null)
  [[ -n $names ]] || names=$("$bin/$1" --list-tests --verbosity quiet)
  sed 's/^ *//' <<<"$names"
}
escaped() { sed 's/[][,\\]/\\&/g'; }
# The results in Catch2's XML, which it writes as it goes: "passed|skipped|failed|ended SECONDS NAME".
results_in() {
  awk '
    function attribute(name) {
      if (!match($0, name "=\"[^\"]*\"")) return ""
      return substr($0, RSTART + length(name) + 2, RLENGTH - length(name) - 3)
    }
    function plain(text) {
      gsub(/&lt;/, "<", text); gsub(/&gt;/, ">", text); gsub(/&quot;/, "\"", text)
      gsub(/&apos;/, "\047", text); gsub(/&amp;/, "\\&", text)
      return text
    }
    /<TestCase / { test = plain(attribute("name")); skipped = 0 }
    /skipped: / { skipped = 1 }
    /<OverallResult / {
      how = attribute("success") == "true" ? (skipped ? "skipped" : "passed") : "failed"
      printf "%s %.1f %s\n", how, attribute("durationInSeconds"), test
      test = ""
    }
    END { if (test != "") printf "ended 0 %s\n", test }' "$1"
}
known() { grep -cE "^(passed|skipped|FAILED) [0-9.]+ $2\$" "$1" >/dev/null 2>&1; }
run_alone() {  # run_alone PROGRAM NAME: adds its result to test_results.txt
  local status=0 begin=$EPOCHREALTIME log=$out/test.log how=passed
  CUDA_LAUNCH_BLOCKING=1 limited 120 "$bin/$1" -w NoAssertions "$(escaped <<<"$2")" \
    >"$log" 2>&1 </dev/null || status=$?
  if [[ $status -eq 0 ]] && grep -q 'No test\(s \| cases \)\(ran\|matched\)' "$log"; then status=1; fi
  if [[ $status -eq $stopped && $(left) -le 0 ]]; then return; fi  # it is told as not run
  [[ $status -ne 0 ]] || ! grep -q 'skipped: ' "$log" || how=skipped
  [[ $status -eq 0 ]] || how=FAILED
  printf '%s %s %s\n' $how "$(awk "BEGIN {printf \"%.1f\", $EPOCHREALTIME - $begin}")" "$2" >>"$out/test_results.txt"
  [[ $how != FAILED ]] || { echo "FAILED  $2 (status $status)"; head -n 60 "$log"; }
}
step_tests() {
  local program name names programs=("$tests")
  [[ $device == cuda ]] || programs+=(tests_examples)
  [[ $resumes == yes ]] || rm -f "$out/test_results.txt"
  touch "$out/test_results.txt"
  : >"$out/test_names.txt"
  for program in "${programs[@]}"; do
    [[ -x $bin/$program ]] || { echo "$bin/$program is not there"; return 1; }
    names=$(names_in "$program")
    [[ $device == cuda ]] || names=$(few_of "$names")
    [[ -n $names ]] || continue
    sed "s/^/$program /" <<<"$names" >>"$out/test_names.txt"
    [[ -s $out/test_results.txt && $resumes == yes ]] && continue
    limited 420 "$bin/$program" -r xml -d yes -w NoAssertions "$(escaped <<<"$names" | paste -sd,)" \
      >"$out/$program.xml" 2>"$out/$program.stderr" </dev/null
    results_in "$out/$program.xml" | grep -E '^(passed|skipped)' >>"$out/test_results.txt"
  done
  while read -r program name; do
    grep -qxE "(passed|skipped|FAILED) [0-9.]+ $(sed 's/[][\\.*^$(){}?+|]/\\&/g' <<<"$name")" \
      "$out/test_results.txt" || run_alone "$program" "$name"
  done <"$out/test_names.txt"
  local all passed failed skipped
  all=$(wc -l <"$out/test_names.txt")
  passed=$(grep -c ^passed "$out/test_results.txt") failed=$(grep -c ^FAILED "$out/test_results.txt")
  skipped=$(grep -c ^skipped "$out/test_results.txt")
  sed -n 's/^skipped [0-9.]* /skipped: /p' "$out/test_results.txt"
  echo "$passed of $all tests passed, $failed failed, $skipped were skipped," \
    "$((all - passed - failed - skipped)) were not run"
  [[ $failed -eq 0 && $all -gt 0 && $((passed + failed)) -gt 0 ]] || return 1
  [[ $((passed + skipped)) -eq $all ]] || return $stopped
}
few_of() {  # with --emulator: two tests of kernels, of training and of transports
  grep -vE '^(training:|device|checkpoints move|processes with|emulator|checked)' <<<"$1" | head -n 2
  grep -E '^(training:|devices[ :])' <<<"$1" | head -n 2
  grep -E '^device transports?:|^processes with devices' <<<"$1" | head -n 2
}

measure() {  # measure NAME COMMAND...: its text also becomes $out/NAME.md
  { sed -n 's/^gpu: /On /p; s/^\(date\|commit\): /\1 /p' "$out/machine.txt" | paste -sd, | sed 's/,/, /g'
    echo
    limited 150 "${@:2}"; } 2>&1 | tee "$out/$1.md"
}
training() {  # training NAME OPTION...
  local tiny=()
  [[ $device == cuda ]] || tiny=(--size tiny --batch 2 --steps 1 --rounds 1 --matmul 64)
  measure "$1" "$bin/benchmarks/gpu_training" --device "$device" --json "$out/$1.json" "${@:2}" "${tiny[@]}"
}
step_training() { training training; }
step_training_50304() { training training_50304 --vocabulary 50304; }
step_training_graph() { training training_graph --cuda-graph; }
step_training_4() { training training_4 --batch 4; }
step_training_64() { training training_64 --batch 64; }
step_training_f32() { training training_f32 --dtype f32; }
step_training_tf32() { training training_tf32 --dtype tf32; }
step_training_zipf() { training training_zipf --tokens zipf; }
step_kernel_rates() {
  measure kernel_rates "$bin/benchmarks/gpu_kernels" --device "$device" --json "$out/kernel_rates.json"
}
step_ladder() {
  local program=ladder_gpu
  [[ $device == cuda ]] || program=ladder
  measure ladder "$bin/benchmarks/$program" --json "$out/ladder.json"
}
step_kernels_of_a_step() {
  local ncu
  [[ $device == cuda ]] || { echo "the emulator has no profiler"; return $left_out; }
  ncu=$(command -v ncu || ls "${CUDA_HOME:-/usr/local/cuda}/bin/ncu" 2>/dev/null)
  [[ -n $ncu ]] || { echo "ncu, NVIDIA's profiler, is not here"; return $left_out; }
  command -v python3 >/dev/null || { echo "python3, which reads what ncu writes, is not here"; return $left_out; }
  limited 280 "$ncu" --csv --page raw --print-units base --clock-control none \
    --metrics "$(python3 "$root/tests/benchmarks/gpu_kernel_table.py" --metrics)" \
    "$bin/benchmarks/gpu_training" --steps 1 --rounds 1 --matmul 64 >"$out/ncu.csv" || return
  python3 "$root/tests/benchmarks/gpu_kernel_table.py" "$out/ncu.csv" --json "$out/kernels_of_a_step.json" |
    tee "$out/kernels_of_a_step.md"
}
step_pytorch() {
  local torch=()
  [[ $device == cuda ]] || torch=(--device cpu --steps 1 --rounds 1)
  command -v python3 >/dev/null || { echo "python3 is not here: nothing to compare with"; return $left_out; }
  [[ -f $out/training.json ]] || { echo "the step training has to be run before"; return 1; }
  measure pytorch env LD_LIBRARY_PATH="$own_library_path" \
    python3 "$root/tests/benchmarks/gpu_pytorch.py" "${torch[@]}" \
    --beside "$out/training.json" --json "$out/pytorch.json"
}

check() {  # check TOOL TESTS...: under NVIDIA's own checks
  local tool=compute-sanitizer status=0 names
  [[ $device == cuda ]] || { echo "not on the emulator, which has checks of its own"; return $left_out; }
  command -v $tool >/dev/null || tool=${CUDA_HOME:-/usr/local/cuda}/bin/compute-sanitizer
  [[ -x $(command -v "$tool") ]] || { echo "compute-sanitizer is not here"; return $left_out; }
  for names in "${@:2}"; do
    echo "== $1: $names"
    limited 140 "$tool" --tool "$1" --error-exitcode 9 "$bin/$tests" "$names" || status=$?
  done
  return $status
}
step_memcheck() {
  check memcheck "the ladder's*,mma*,ldmatrix*,backend gemm*,backend sparse: products*" \
    "backend attention*,backend images: values*" \
    "backend kernels*,backend ops*,backend codecs: a value*"
}
step_racecheck() {
  check racecheck "mma*,ldmatrix*,asynchronous*" "backend attention*" "backend kernels*"
}

# ---- all of them -----------------------------------------------------------------------------
find_gpu
slug=$(name_of_gpu | tr '[:upper:]' '[:lower:]' | tr -cs 'a-z0-9\n' _)
if [[ -z $out ]]; then
  out=$root/tests/benchmarks/results/gpu_$slug
  [[ $device == cuda ]] || out=$build/gpu_emulator
fi
archive=${archive:-$out.tar.gz}
mkdir -p "$out" "$(dirname "$archive")" || exit 2
[[ $resumes == yes ]] || rm -f "$out"/*.result
machine
cat "$out/machine.txt"

summarize() {  # of all steps so far, also of calls before this one
  local step result took table="| step | result | seconds |\n| --- | --- | --- |\n" results=""
  for step in "${all_steps[@]}"; do
    result="not run" took=""
    [[ ! -f $out/$step.result ]] || IFS=$'\t' read -r result took <"$out/$step.result"
    table+="| $step | $result | $took |\n"
    results+="${results:+, }{\"step\": \"$step\", \"result\": \"$result\"${took:+, \"seconds\": $took}}"
  done
  { cat "$out/machine.txt"; echo; printf '%b' "$table"; } >"$out/summary.md"
  printf '{"machine": %s, "steps": [%s]}\n' "$(cat "$out/machine.json")" "$results" >"$out/summary.json"
}
pack_results() {  # whole at any moment, whatever ends this script
  local new=$archive.$BASHPID
  tar -czf "$new" -C "$(dirname "$out")" "$(basename "$out")" 2>/dev/null && mv "$new" "$archive"
}
packer=
finish() {
  if [[ -n $packer ]]; then
    kill "$packer" 2>/dev/null
    wait "$packer" 2>/dev/null
    rm -f "$archive.$packer"
  fi
  summarize
  pack_results
  echo
  cat "$out/summary.md"
  echo "Results are in $out and $archive"
}
trap finish EXIT
trap 'exit 143' TERM INT HUP
while sleep 20; do summarize; pack_results; done >/dev/null 2>&1 &  # also amid a long step
packer=$!

failed=0 least=5  # seconds that a step needs to begin
need_programs() {
  [[ -x $bin/$tests ]] || fail "$bin/$tests is not there; build first" \
    "($([[ $device == cuda ]] && echo "step build" || echo "an ordinary build")), or give --bin"
  find_libraries
}
for step in "${steps[@]}"; do
  if [[ $resumes == yes && -f $out/$step.result ]] && ! grep -q ^stopped "$out/$step.result"; then
    ! grep -q ^FAILED "$out/$step.result" || failed=1
    continue
  fi
  [[ $(left) -gt $least ]] || break
  [[ $step == build ]] || need_programs
  printf '\n== %s\n' "$step"
  begin=$SECONDS status=0
  "step_$step" 2>&1 | tee "$out/$step.txt" || status=$?
  case $status in
    0) result=passed ;;
    "$left_out") result="left out" ;;
    "$stopped" | 137) if [[ $(left) -le $least ]]; then result=stopped; else result=FAILED failed=1; fi ;;
    *) result=FAILED failed=1 ;;
  esac
  printf '%s\t%s\n' "$result" $((SECONDS - begin)) >"$out/$step.result"
  [[ $step != build || $result == passed ]] || break
done
exit $failed
