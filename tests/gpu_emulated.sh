#!/usr/bin/env bash
# Tries what a machine with a GPU is borrowed for, on the emulator: gpu_emulated.sh BIN
# Packs BIN's programs, unpacks them elsewhere, and runs tests/gpu.sh there in two calls.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { echo "FAILED: $*"; exit 1; }

! "$root/tests/gpu.sh" --emulator --bin "$1" --pack "$folder/refused.tar.gz" --limit 1 ||
  fail "--limit 1 has refused nothing"
[[ ! -e $folder/refused.tar.gz ]] || fail "a refused archive was written"
"$root/tests/gpu.sh" --emulator --bin "$1" --pack "$folder/pack.tar.gz"
tar -xzf "$folder/pack.tar.gz" -C "$folder"
cd "$folder"  # nothing of the repository is here
emulated() {
  gpu/tests/gpu.sh --emulator --no-build --bin gpu/bin --out results --archive "$folder/results.tgz" "$@"
}
emulated --seconds 12 training tests ladder  # the last ones hardly begin
emulated --resume training tests training_50304 training_graph training_zipf ladder kernel_rates \
  kernels_of_a_step
for step in training tests training_50304 training_graph training_zipf ladder kernel_rates; do
  grep -q "^| $step | passed" results/summary.md || fail "the step $step"
done
grep -q '^| kernels_of_a_step | left out' results/summary.md || fail "kernels of a step"
grep -q '^| racecheck | not run' results/summary.md || fail "a step that was not asked for"
grep -q '^12 of 12 tests passed' results/tests.txt || fail "tests"
tar -tzf results.tgz >archived
grep -q results/training_zipf.json archived || fail "the archive"
