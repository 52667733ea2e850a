#!/usr/bin/env bash
# A run of MPI processes that loses a rank again and again: kills one of its processes every few
# seconds, lets runs of other seeds train as long without a loss, and prints a table of losses.
# Not a test of ctest: it takes minutes. Chapter 15.
#   tests/elastic_lab.sh BIN TEXT [SECONDS=600] [EVERY=20] [RANKS=8] [OUT=elastic_lab]
# BIN is the folder of the programs. The table goes to OUT/table.md.
set -euo pipefail
bin=$1 text=$2 seconds=${3:-600} every=${4:-20} ranks=${5:-8} out=${6:-elastic_lab}
mkdir -p "$out"
rm -rf "$out"/lossy "$out"/seed_*
model=(--data "$text" --layers 2 --heads 2 --width 32 --context 32 --batch 16 --steps 100000
  --warmup 20 --min-learning-rate 1e-3 --evaluate-every 0 --quiet)

# [snippet lossy]
export OMPI_MCA_rmaps_base_oversubscribe=1
"$bin/elastic" -n "$ranks" --every 3 "$bin/train_gpt" "${model[@]}" --seed 1 \
  --data-parallel "$ranks" --out "$out/lossy" 2>"$out/lossy.log" &
launcher=$!
kills=0 end=$((SECONDS + seconds)) next=$((SECONDS + every))
while ((SECONDS < end)) && kill -0 "$launcher" 2>/dev/null; do
  sleep 0.5
  ((SECONDS >= next)) || continue
  next=$((next + every))
  # Only processes below the launcher: mpirun's children; MPICH's are its children's.
  mpirun=$(pgrep -P "$launcher" | head -1 || true)
  mapfile -t processes < <(pgrep -P "$mpirun,$(pgrep -d, -P "$mpirun")" train_gpt || true)
  [[ ${#processes[@]} -gt 0 ]] || continue
  kill -KILL "${processes[RANDOM % ${#processes[@]}]}" && kills=$((kills + 1))
done
kill -INT "$launcher" 2>/dev/null || true  # saves and stops
wait "$launcher" || true
# [end snippet]

updates=$(tail -1 "$out/lossy/metrics.csv" | cut -d, -f1)
lines=$(awk -F, 'NR > 1 && $2 != "" { ++n[$1] } END { for (i in n) if (n[i] > 1) ++twice
  print length(n) " updates have a line, " twice + 0 " have two" }' "$out/lossy/metrics.csv")
for seed in 1 2 3; do
  "$bin/train_gpt" "${model[@]}" --seed $seed --stop-after "$updates" --out "$out/seed_$seed"
done

# The mean loss of each tenth of the run, by seed; whether the lossy run lies among them, give or
# take the spread of the seeds.
{
  counted=$(sed -nE 's/^elastic: ([0-9]+ loss.*) were done again.*/\1/p' "$out/lossy.log")
  echo "In $seconds s, one of $ranks processes was killed $kills times, every $every s. The" \
    "program \`elastic\` counted: $counted were done again. $lines."
  echo
  tenths() {
    awk -F, -v n="$updates" 'NR > 1 && $2 != "" { t = int(($1 - 1) * 10 / n); s[t] += $2; ++c[t] }
      END { for (t = 0; t < 10; ++t) printf "%.4f\n", s[t] / c[t] }' "$1/metrics.csv"
  }
  echo "| updates up to | with losses | seed 1 | seed 2 | seed 3 | within |"
  echo "| --- | --- | --- | --- | --- | --- |"
  paste -d' ' <(tenths "$out/lossy") <(tenths "$out/seed_1") <(tenths "$out/seed_2") \
    <(tenths "$out/seed_3") | awk -v n="$updates" '{
      low = high = $2
      for (i = 3; i <= 4; ++i) { if ($i < low) low = $i; if ($i > high) high = $i }
      ok = $1 >= low - (high - low) && $1 <= high + (high - low) ? "yes" : "NO"
      printf "| %d | %s | %s | %s | %s | %s |\n", int(n * NR / 10), $1, $2, $3, $4, ok }'
} | tee "$out/table.md"
