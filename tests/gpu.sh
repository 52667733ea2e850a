#!/usr/bin/env bash
# Does all that a machine with a GPU is needed for: builds, tests kernels, training and transports there,
# measures, and writes what came out to a folder, as text and JSON.
#   gpu.sh [OPTION...] [PART...]
# Parts: build kernels training transports benchmarks pytorch sanitizer; all without one. Each takes
# minutes.
#   --out DIR     where results go (default: tests/benchmarks/results/gpu_NAME, by the GPU's name)
#   --build DIR   where to build (default: build)
#   --no-build    the programs are there already: in the build folder, or in --bin DIR
#   --install     first install what is missing, as BUILDING.md says
#   --emulator    try this script without a GPU: small sizes, on the emulator, of an ordinary build
#   --pack DIR    build what a machine without our packages can run, without MPI and NCCL, and put it
#                 there; copy DIR, and run DIR/tests/gpu.sh --no-build --bin DIR/bin on that machine,
#                 which needs glibc and libstdc++ as new as here, and cuBLAS of this CUDA release
set -uo pipefail
export LC_ALL=C  # a decimal point in times
export CUDA_DEVICE_MAX_CONNECTIONS=32  # streams that wait don't stand in others' way
own_library_path=${LD_LIBRARY_PATH-}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

build=$root/build bin="" out="" pack="" device=cuda builds=yes installs=no
parts=()
ordinary_build="cmake --preset release && cmake --build --preset release"
fail() { echo "gpu.sh: $*" >&2; exit 2; }
while [[ $# -gt 0 ]]; do
  case $1 in
    --out | --build | --bin | --pack)
      [[ $# -gt 1 ]] || fail "$1 needs a folder"
      printf -v "${1#--}" %s "$2"
      shift ;;
    --no-build) builds=no ;;
    --install) installs=yes ;;
    --emulator) device=emulator ;;
    -h | --help) sed -n '2,16s/^# //p' "$0"; exit 0 ;;
    build | kernels | training | transports | benchmarks | pytorch | sanitizer) parts+=("$1") ;;
    *) fail "unknown argument '$1'; see gpu.sh --help" ;;
  esac
  shift
done
tests=tests_gpu
[[ $device == cuda ]] || tests=tests_cuda
all_parts=(build kernels training transports benchmarks pytorch sanitizer)
if [[ ${#parts[@]} -eq 0 ]]; then
  parts=("${all_parts[@]}")
  [[ $builds == yes && $device == cuda ]] || parts=("${all_parts[@]:1}")
elif [[ " ${parts[*]} " == *' build '* ]]; then
  [[ $builds == yes ]] || fail "--no-build, and the part build: choose one"
  [[ $device == cuda ]] || fail "--emulator tries programs of an ordinary build: $ordinary_build"
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

# ---- building --------------------------------------------------------------------------------
programs=(tests_gpu ladder_gpu gpu_kernels gpu_training train_gpt sample_gpt)
configure_and_build() {  # configure_and_build FOLDER SETTING...
  [[ -n $nvcc ]] || { echo "nvcc is neither on the PATH nor in CUDA_HOME; or use --no-build"; return 1; }
  local folder=$1 ninja=()
  command -v ninja >/dev/null && [[ ! -e $folder/CMakeCache.txt ]] && ninja=(-G Ninja)
  cmake -S "$root" -B "$folder" "${ninja[@]}" -DCMAKE_BUILD_TYPE=Release -DPARAGRAD_CUDA=ON \
    -DPARAGRAD_TESTS=ON "${@:2}" &&
    cmake --build "$folder" -j "$(nproc --all)" --target "${programs[@]}"
}
part_build() {
  [[ $installs == no ]] || "$root/examples/install_packages.sh" --tests || return 1
  local capability
  capability=$(gpu compute_cap)
  [[ -z $capability || ${capability%.*} -ge 8 ]] ||
    { echo "this GPU has compute capability $capability; paragrad needs 8.0 or later"; return 1; }
  configure_and_build "$build" ${capability:+-DPARAGRAD_CUDA_ARCHITECTURES=${capability//./}-real}
}
pack() {
  local folder=$build-packed program library
  configure_and_build "$folder" -DPARAGRAD_NATIVE=OFF -DPARAGRAD_MPI=OFF -DPARAGRAD_NCCL=OFF \
    -DPARAGRAD_ONEDNN=OFF || exit 1
  mkdir -p "$pack"/bin/{lib,benchmarks} "$pack"/tests/{benchmarks,references}
  for program in tests_gpu train_gpt sample_gpt benchmarks/{ladder_gpu,gpu_kernels,gpu_training}; do
    strip -o "$pack/bin/$program" "$folder/bin/$program" || exit 1
  done
  ldd "$pack"/bin/* "$pack"/bin/benchmarks/* 2>/dev/null | awk '$3 ~ /lib(fmt|pcre2-8|z|gomp)\.so/ {print $3}' | sort -u |
    while read -r library; do cp "$library" "$pack/bin/lib/"; done
  cp "$root/tests/gpu.sh" "$pack/tests/"
  cp "$root/tests/benchmarks/gpu_pytorch.py" "$pack/tests/benchmarks/"
  cp "$root/tests/references/gpt_model.py" "$pack/tests/references/"
  git -C "$root" describe --always --dirty >"$pack/commit" 2>/dev/null
  echo "$pack has $(du -sh "$pack" | cut -f 1). On the other machine: tests/gpu.sh --no-build --bin bin"
}

# ---- tests -----------------------------------------------------------------------------------
# Each test in a process of its own: a kernel that fails or hangs takes no other test with it.
names_in() {  # names_in PROGRAM: as Catch2 2 lists them, which exits with their number, or as 3 does
  local names
  names=$("$bin/$1" --list-test-names-only 2>/dev/null)
  [[ -n $names ]] || names=$("$bin/$1" --list-tests --verbosity quiet)
  sed 's/^ *//' <<<"$names"
}
run_test() {  # run_test PART PROGRAM NAME
  local begin=$EPOCHREALTIME log=$out/test.log status=0 passed=true seconds escaped limit=300
  [[ $1 != kernels ]] || limit=120
  escaped=$(sed 's/[][,\\]/\\&/g' <<<"$3")
  timeout -k 10 $limit "$bin/$2" "$escaped" >"$log" 2>&1 </dev/null || status=$?
  seconds=$(awk "BEGIN {printf \"%.1f\", $EPOCHREALTIME - $begin}")
  if [[ $status -eq 0 ]] && grep -q 'No test\(s \| cases \)\(ran\|matched\)' "$log"; then status=1; fi
  if [[ $status -ne 0 ]]; then
    passed=false
    echo "FAILED  $seconds s  $3 (status $status)"
    head -n 60 "$log"
  else
    echo "$(grep -q 'skipped: ' "$log" && echo skipped || echo passed)  $seconds s  $3$(
      grep -A 1 'warning:' "$log" | tail -n 1)"
  fi
  printf '{"name": %s, "passed": %s, "seconds": %s}\n' "$(json_string "$3")" $passed "$seconds" \
    >>"$out/$1.jsonl"
  rm -f "$log"
  return $status
}
part_of() {  # part_of NAME: the part that runs the test
  case $1 in
    training:* | devices[\ :]* | checkpoints\ move*) echo training ;;
    device\ * | processes\ with\ devices*) echo transports ;;
    *) echo kernels ;;
  esac
}
run_tests() {  # run_tests PART: its tests; with --emulator, the first two of them
  local program name failed=0 count=0 sources=("$tests")
  [[ $device == cuda ]] || sources+=(tests_examples)
  for program in "${sources[@]}"; do
    [[ -x $bin/$program ]] || { echo "$bin/$program is not there"; return 1; }
  done
  : >"$out/$1.jsonl"
  while read -r program name; do
    [[ $(part_of "$name") == "$1" ]] || continue
    [[ $device == cuda || $count -lt 2 ]] || break
    count=$((count + 1))
    run_test "$1" "$program" "$name" || failed=$((failed + 1))
  done < <(for program in "${sources[@]}"; do names_in "$program" | sed "s/^/$program /"; done)
  echo "$((count - failed)) of $count tests passed"
  [[ $failed -eq 0 && $count -gt 0 ]]
}
part_kernels() { run_tests kernels; }
part_training() { run_tests training; }
part_transports() { run_tests transports; }

# ---- speed -----------------------------------------------------------------------------------
measure() {  # measure NAME COMMAND...: its text also becomes $out/NAME.md
  echo "== $1"
  { sed -n 's/^gpu: /On /p' "$out/machine.txt"; echo; timeout -k 10 140 "${@:2}"; } 2>&1 | tee "$out/$1.md"
}
part_benchmarks() {
  rm -f "$out"/*_rates.json "$out/ladder.json"  # of an earlier call
  local status=0 of=$bin/benchmarks ladder=ladder_gpu training=()
  if [[ $device == emulator ]]; then
    ladder=ladder training=(--size tiny --steps 1 --rounds 1 --matmul 64)
  fi
  measure ladder "$of/$ladder" --json "$out/ladder.json" || status=1
  measure kernel_rates "$of/gpu_kernels" --device $device --json "$out/kernel_rates.json" || status=1
  measure training_rates "$of/gpu_training" --device $device --json "$out/training_rates.json" \
    "${training[@]}" || status=1
  return $status
}
part_pytorch() {
  local torch=()
  [[ $device == cuda ]] || torch=(--device cpu)
  command -v python3 >/dev/null || { echo "python3 is not here: nothing to compare with"; return $left_out; }
  [[ -f $out/training_rates.json ]] || { echo "the part benchmarks has to be run before"; return 1; }
  measure pytorch_rates env LD_LIBRARY_PATH="$own_library_path" \
    python3 "$root/tests/benchmarks/gpu_pytorch.py" "${torch[@]}" \
    --beside "$out/training_rates.json" --json "$out/pytorch_rates.json"
}

# ---- NVIDIA's own checks ---------------------------------------------------------------------
left_out=77
part_sanitizer() {
  local tool=compute-sanitizer status=0
  [[ $device == cuda ]] || { echo "not on the emulator, which has checks of its own"; return $left_out; }
  command -v $tool >/dev/null || tool=${CUDA_HOME:-/usr/local/cuda}/bin/compute-sanitizer
  [[ -x $(command -v "$tool") ]] || { echo "compute-sanitizer is not here"; return $left_out; }
  check() {  # check TOOL TESTS
    echo "== $1: $2"
    timeout -k 10 140 "$tool" --tool "$1" --error-exitcode 9 "$bin/$tests" -w NoTests "$2" || status=1
  }
  check memcheck "the ladder's*,mma*,ldmatrix*,backend gemm*,backend sparse: products*"
  check memcheck "backend attention: values at*,backend attention: large*,backend images: values*"
  check memcheck "backend kernels: rows*,backend kernels: gather*,backend codecs: a value*"
  check racecheck "mma*,ldmatrix*,asynchronous*,backend attention: values at*,backend attention: large*"
  return $status
}

# ---- the parts -------------------------------------------------------------------------------
if [[ -n $pack ]]; then
  pack
  exit
fi
find_gpu
slug=$(name_of_gpu | tr '[:upper:]' '[:lower:]' | tr -cs 'a-z0-9\n' _)
if [[ -z $out ]]; then
  out=$root/tests/benchmarks/results/gpu_$slug
  [[ $device == cuda ]] || out=$build/gpu_emulator
fi
mkdir -p "$out" || exit 2
machine
cat "$out/machine.txt"

perform() {  # perform PART
  if [[ $1 != build ]]; then
    [[ -x $bin/$tests ]] || fail "$bin/$tests is not there; build first" \
      "($([[ $device == cuda ]] && echo "part build" || echo "$ordinary_build")), or give --bin"
    find_libraries
  fi
  "part_$1"
}
failed=0 built=yes
for part in "${parts[@]}"; do
  printf '\n== %s\n' "$part"
  begin=$SECONDS status=0
  if [[ $built == yes ]]; then
    perform "$part" 2>&1 | tee "$out/$part.txt" || status=$?
  else
    echo "the programs could not be built" | tee "$out/$part.txt"
    status=$left_out
  fi
  [[ $part != build || $status -eq 0 ]] || built=no
  case $status in
    0) result=passed ;;
    "$left_out") result="left out" ;;
    *) result=FAILED failed=1 ;;
  esac
  echo "$result" $((SECONDS - begin)) >"$out/$part.result"
done

# Of all parts that have been run so far, also by calls before this one.
summary="| part | result | seconds |\n| --- | --- | --- |\n" results=""
for part in "${all_parts[@]}"; do
  [[ -f $out/$part.result ]] || continue
  read -r result seconds < <(sed 's/left out/left_out/' "$out/$part.result")
  summary+="| $part | ${result/_/ } | $seconds |\n"
  results+="${results:+, }{\"part\": \"$part\", \"result\": \"${result/_/ }\", \"seconds\": $seconds}"
done
echo
{ cat "$out/machine.txt"; echo; printf '%b' "$summary"; } | tee "$out/summary.md"
printf '{"machine": %s, "parts": [%s]}\n' "$(cat "$out/machine.json")" "$results" >"$out/summary.json"
echo "Results are in $out"
exit $failed
