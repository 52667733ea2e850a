#!/usr/bin/env bash
# A rank dies, throws, falls silent or never joins: every other one must end with its report, and
# no process may be left behind.
# lost_ranks.sh MPIEXEC CHECKS, where CHECKS is the program of checks.cpp.
set -uo pipefail
mpiexec=$1 checks=$2 wrong=0
# Open MPI kills the others a second after it told them to stop; on a busy machine they need longer.
export OMPI_MCA_odls_base_sigkill_timeout=4 PRTE_MCA_odls_base_sigkill_timeout=4

complain() { echo "$1; the output was:"; echo "$output"; wrong=1; }

lose() {  # lose HOW LINE...: lines that the output of `checks HOW` on three ranks must have
  local how=$1 line pid
  output=$(timeout -k 5 60 "$mpiexec" -n 3 "$checks" "$how" 2>&1)
  [[ $? -ne 0 && $? -ne 124 ]] || complain "$how: expected the job to fail, and in time"
  for line in "${@:2}"; do
    grep -q "$line" <<<"$output" || complain "$how: expected a line '$line'"
  done
  [[ $(grep -c '^process' <<<"$output") -eq 3 ]] || complain "$how: expected three processes"
  for pid in $(sed -n 's/^process //p' <<<"$output"); do
    for _ in {1..50}; do kill -0 "$pid" 2>/dev/null && sleep 0.2; done  # it may be just ending
    if kill -0 "$pid" 2>/dev/null; then complain "$how: process $pid is left behind"; fi
  done
}

waiting="waiting for a message of rank 1 because of"
lose throw "^rank 1: out of paper" "rank 0: stopped $waiting .*rank 1: out of paper" \
  "rank 2: stopped $waiting .*rank 1: out of paper"
# Whoever is late first reports so; the other one may hear of that before its own time is over.
lose late "rank [02]: waited 3 s for a message of rank 1; rank 1 was last heard of, [0-9]* s ago, \
at instruction 5 of its row"
if [[ $("$mpiexec" --version) == *HYDRA* ]]; then  # MPICH's gives the others no time to report
  lose kill "Killed (signal 9)"
  lose lost_engine "Killed (signal 9)"
else
  # A rank hears of it at first hand, or from the other one that was quicker to stop.
  lose kill "rank 0: stopped $waiting .*told to stop" "rank 2: stopped $waiting .*told to stop"
  # In the middle of a plan: the instruction, where the other rank was, and the row with its cell.
  lose lost_engine "rank 1: waited .* s for .* of rank [02]; rank [02] was .*at" \
    "rank 2: waited .* s for .* of rank 1; rank 1 was .*at" "^  rank 1:.* \[[^ ]*\]" \
    "^  rank 2:.* \[[^ ]*\]"
fi

# A rank that never joins.
output=$(timeout -k 5 60 "$mpiexec" -n 1 "$checks" join : -n 1 sleep 50 2>&1)
[[ $? -ne 0 && $? -ne 124 ]] || complain "join: expected the job to fail, and in time"
grep -q "waited 2 s for the other ranks to join" <<<"$output" || complain "join: no reason"

# Started as one of four by somebody whom this MPI does not know.
output=$(RANK=0 WORLD_SIZE=4 timeout 60 "$checks" suite 2>&1) && complain "one of four: it ran"
grep -q "started this process as one of 4 ranks" <<<"$output" || complain "one of four: no reason"
exit $wrong
