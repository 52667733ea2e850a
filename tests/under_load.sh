#!/usr/bin/env bash
# Runs the tests that use time, signals or processes, many times each, on a machine that is busy
# with other work, and names those that fail now and then. By hand, or by night: it takes hours.
#   tests/under_load.sh BUILD [TIMES [PATTERN]]    TIMES: 20; PATTERN: of ctest's names, all
# Passes if no test failed. BUILD/Testing/Temporary/LastTest.log has what they printed.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$(realpath "${1:?the folder of a build}") times=${2:-20} pattern=${3:-.}
load=16 words='sleep_for|chrono|SIG[A-Z]+|kill\(|fork\(|run_program|timeout|Timeout|mpirun'

# ctest's numbers of the tests in files that have such a word, and of scripts that run programs.
mapfile -t files < <(grep -rlE "$words" "$root"/tests --include='*_test.cpp' --include='*_suite.cpp')
perl -0ne 'while (/TEST_CASE\(\s*((?:"(?:[^"\\]|\\.)*"\s*)+)/g) {
             (my $name = $1) =~ s/"\s*"//g; $name =~ s/^"|"\s*$//g; $name =~ s/\\(.)/$1/g;
             print "$name\n" }' "${files[@]}" | sort -u > "$build/under_load.names"
numbers=$(ctest --test-dir "$build" -N |
  sed -nE 's/^ *Test +#([0-9]+): (.*)$/\1 \2/p' | { grep -E -- " .*($pattern)" || true; } |
  awk -v names="$build/under_load.names" '
    BEGIN { while ((getline name < names) > 0) known[name] = 1 }
    { number = $1; sub(/^[0-9]+ /, ""); full = $0; sub(/^[^\/]*\//, "")
      if ($0 in known || full ~ /^mpi\/|rude_neighbour/) printf ",%s", number }')
[[ -n $numbers ]] || { echo "under_load.sh: no test of $build is called $pattern" >&2; exit 2; }

busy=()
trap 'kill "${busy[@]}" 2>/dev/null || true' EXIT
for ((i = 0; i < load; i++)); do
  (while :; do :; done) &
  busy+=($!)
done
echo "$(tr -cd , <<<"$numbers" | wc -c) tests, $times times each, beside $load busy processes"
ctest --test-dir "$build" -I "0,0,1$numbers" --repeat "until-fail:$times" -j "$(($(nproc) + 1))" \
  --output-on-failure > "$build/under_load.log" 2>&1 && status=0 || status=$?
sed -n '/tests passed/,$p' "$build/under_load.log"
exit "$status"
