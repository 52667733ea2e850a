#!/usr/bin/env bash
# Proves that make_corpus.sh, demo.sh, quickstart.sh, weave.sh, letters.sh, headers.sh, commands.sh,
# includes.sh, spine.sh, size.sh and gpu.sh notice what they are there to notice, in a folder of its own.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/tutorials" "$folder/tests"
cp "$root/tutorials/weave.sh" "$folder/tutorials/"
cp "$root"/tests/{includes.sh,rooms.txt} "$folder/tests/"
cd "$folder"

wrong=0
expect() {  # expect STATUS PATTERN COMMAND...: its exit status, and a pattern that its output has
  local status=0 output
  output=$("${@:3}" 2>&1) || status=$?
  if [[ $status -ne $1 ]] || ! grep -q -- "$2" <<<"$output"; then
    printf 'line %s: expected status %s and "%s" from %s, got status %s and:\n%s\n' \
      "${BASH_LINENO[0]}" "$1" "$2" "${*:3}" "$status" "$output"
    wrong=1
  fi
}
weave() { tutorials/weave.sh "$@"; }

# ---- make_corpus.sh
for file in '' "$folder" -h; do
  expect 2 'expected one file that can be written' "$root/examples/data/make_corpus.sh" $file
done

# ---- demo.sh
expect 2 'cmake --build .*/build --target train_vocabulary$' env PLANGRAD_BIN="$folder" "$root/examples/demo.sh"
show_as_demo() { bin=/bin; eval "$(sed -n '/^show()/,/^}/p' "$root/examples/demo.sh")"; show "$@"; }
expect 0 "^\$ echo --prompt 'And the king' x" show_as_demo echo --prompt 'And the king' x

# ---- quickstart.sh
end_of_quickstart() { out=own build=b; eval "$(sed -n '/^echo "How/,$p' "$root/examples/quickstart.sh")"; }
expect 0 '^The plan as it ran, to play with: own/plan.html$' end_of_quickstart
begin_quickstart() { build=$folder out=$folder/quickstart/run; eval "$(sed -n '/^if .*$out ==/,/^fi$/p' "$root/examples/quickstart.sh")"; }
mkdir -p quickstart/run
expect 0 "^Replaces the run in $folder/quickstart/run; to keep it, .* --out$" begin_quickstart

# ---- weave.sh
printf 'int before;\n  // [snippet sum]\n  int sum = a;\n\n    sum += b;\n  // [end snippet]\n' >code.cpp
printf '| what | figure |\n' >figures.md
printf '%s\n' '# One' '<!-- code: code.cpp#sum -->' 'After.' '<!-- text: figures.md -->' \
  '<!-- end text -->' '```' '<!-- code: absent.cpp#ignored in a fence -->' '```' >tutorials/01.md
expect 1 '^+int sum = a;' weave --check
expect 0 'wove tutorials/01.md' weave
expect 0 '' weave --check
printf '%s\n' '# One' '<!-- code: code.cpp#sum -->' '```cpp' 'int sum = a;' '' '  sum += b;' '```' \
  'After.' '<!-- text: figures.md -->' '| what | figure |' '<!-- end text -->' '```' \
  '<!-- code: absent.cpp#ignored in a fence -->' '```' >expected.md
expect 0 '' diff expected.md tutorials/01.md
sed -i 's/sum += b/sum -= b/' code.cpp
expect 1 '^+  sum -= b;' weave --check
expect 0 '' grep -q 'sum += b' tutorials/01.md  # --check changed nothing
weave >/dev/null
echo '| speed | 2 |' >>figures.md
expect 1 '^+| speed | 2 |' weave --check
weave >/dev/null

broken() {  # broken MESSAGE CHAPTER: a chapter of one line that cannot be woven
  echo "$2" >tutorials/02.md
  expect 1 "$1" weave --check
  expect 1 "$1" weave
  rm tutorials/02.md
}
broken 'no snippet named product' '<!-- code: code.cpp#product -->'
broken 'no file absent.cpp' '<!-- code: absent.cpp#sum -->'
broken 'no file absent.md' '<!-- text: absent.md -->'
broken 'expected <!-- code: PATH#NAME -->' '<!-- code: code.cpp -->'
broken 'without its <!-- end text -->' '<!-- text: figures.md -->'
printf '// [snippet open]\nint a;\n' >open.cpp
broken '02.md: a link to ../absent.md, which is not there' 'See [it](../absent.md#part).'
broken '02.md: a link to 01.md#two, but tutorials/01.md has no such heading' '[Two](01.md#two)'
broken '02.md: a link to #one, but tutorials/02.md has no such heading' '[One](#one)'
printf '%s\n' '# One' '## `--data`, [a flag](tutorials/01.md#one): 2' '## One' '[a](#one-1) [b](#--data-a-flag-2)' \
  '[c](tutorials/01.md#one) `x[i](a, b)` [d](code.cpp#L3)' >RESULTS.md
expect 0 '' weave --check
echo '[e](RESULTS.md#three)' >BUILDING.md
expect 1 'BUILDING.md: a link to RESULTS.md#three' weave --check
rm RESULTS.md BUILDING.md
broken 'has no \[end snippet\]' '<!-- code: open.cpp#open -->'
expect 2 'unknown argument' weave --chek

# ---- letters.sh
mkdir tutorials/figures
cp "$root/tests/letters.sh" tests/
cp tutorials/01.md kept.md
figure() {  # figure NAME WIDTH SIZE: a figure with ordinary letters, and letters of SIZE pixels
  printf '<svg viewBox="0 -5 %s 90" font-size="11"><text font-size="%s">a</text></svg>\n' \
    "$2" "$3" >"tutorials/figures/$1.svg"
}
figure wide 977 11
figure narrow 400 9
printf '![a](figures/wide.svg)\n\n| ![b](figures/narrow.svg) | ![c](figures/narrow.svg) |\n' \
  >>tutorials/01.md
expect 0 '' tests/letters.sh
figure wide 1000 11
expect 1 'figures/wide.svg: letters of 8.80 pixels where it is 800 wide' tests/letters.sh
figure wide 977 10.9
expect 1 'figures/wide.svg: letters of 8.93 pixels' tests/letters.sh
figure wide 500 11
figure narrow 405 9
expect 1 'figures/narrow.svg: letters of 8.89 pixels where it is 400 wide' tests/letters.sh
figure narrow 300 8.9
expect 1 'narrow.svg: letters of 8.90 pixels where it is 300 wide' tests/letters.sh
mv kept.md tutorials/01.md

# ---- headers.sh
printf 'inline std::string text;\n' >alone.h
expect 123 'alone.h /dev/null fails' "$root/tests/headers.sh" "$folder/alone.h"
printf '#include <string>\ninline std::string text;\n' >alone.h
expect 0 '1 headers compile alone' "$root/tests/headers.sh" "$folder/alone.h"

# ---- commands.sh, with a program that does nothing
mkdir -p documents/tests documents/tutorials documents/bin
cp "$root/tests/commands.sh" documents/tests/
printf '#!/bin/sh\n' >documents/bin/train_gpt
chmod +x documents/bin/train_gpt
touch documents/{RESULTS,BUILDING}.md documents/tutorials/0{1,2,3}.md
document() {
  printf '%s\n' "$@" >documents/README.md
}
document '```sh' 'build/bin/train_gpt \' '  --steps 9' '```'
expect 0 'README.md:2: build/bin/train_gpt --steps 9' documents/tests/commands.sh documents/bin
document '```sh' 'false' '```'
expect 1 'FAILED README.md:2: false' documents/tests/commands.sh documents/bin
document '```sh fails' 'false' '```'
expect 0 'README.md:2: false' documents/tests/commands.sh documents/bin
document '```sh fails' 'true' '```'
expect 1 'FAILED README.md:2: true' documents/tests/commands.sh documents/bin
document '```sh build' 'build/bin/absent' '```'
expect 1 'README.md:2: there is no build/bin/absent' documents/tests/commands.sh documents/bin
document '    build/bin/train_gpt'
expect 1 'README.md:1: this command stands outside' documents/tests/commands.sh documents/bin

# ---- includes.sh
mkdir -p autograd nn/models
touch autograd/a.h nn/models/n.h
printf '#include <vector>\n#include "autograd/a.h"\n' >nn/models/n.cpp
expect 0 '' tests/includes.sh
expect 0 'nn/models  *autograd' tests/includes.sh --graph
printf '| `autograd` | tensors |\n' >tutorials/00-map.md
expect 1 'autograd/cpu has no line in the table of rooms' tests/includes.sh
rm tutorials/00-map.md
echo '// The room nn/models has no list.' >nn/models/main.h
expect 1 'nn/models/main.h does not name n.h' tests/includes.sh
printf '%s\n' '// Chapter 02 (n.h, models/n.cpp, runs_*.h): 12 (n.cu:3).' '// See m.h.' >nn/models/main.h
expect 1 '^nn/models/main.h:2: there is no file m.h$' tests/includes.sh
sed -i 's/m.h/n_test/' nn/models/main.h
expect 1 'there is no file n_test' tests/includes.sh
rm nn/models/main.h
printf '#include "nn/models/n.h"\n' >autograd/a.cpp
expect 1 'autograd/a.cpp:1: autograd may not include nn/models/n.h' tests/includes.sh
printf '#include "a.h"\n' >autograd/a.cpp
expect 1 '"a.h" is no file' tests/includes.sh
rm autograd/a.cpp
touch nn/flat.h
expect 1 'stand outside: nn/flat.h' tests/includes.sh
rm nn/flat.h
mkdir nn/attic
cp nn/models/n.cpp nn/attic/
expect 1 'nn/attic is no room of tests/rooms.txt' tests/includes.sh
rm -r nn/attic
printf '#include "nn/models/n.h"\n' >nn/models/n.cpp
expect 1 'nn/models no longer includes autograd' tests/includes.sh

# ---- spine.sh, with a spine of a source and its header
cp "$root/tests/spine.sh" tests/
mkdir -p leaves/one leaves/two
printf '%s\n' nn/models/n.h nn/models/n.cpp '# path nn/models/n.cpp' >tests/spine.txt
printf 'codec one leaves/one/* .\ncodec two leaves/two/* .\n' >tests/leaves.txt
touch leaves/one/x.h leaves/two/y.h
expect 0 '2 files, 1 lines; closure: 2 files, 1 lines; path: 1 files' tests/spine.sh --count
printf '#include "leaves/one/x.h"\n' >nn/models/n.h
expect 1 'nn/models/n.h reaches the leaf leaves/one/x.h (codec) by nn/models/n.h' tests/spine.sh
: >nn/models/n.h
printf '#include "leaves/two/y.h"\n' >leaves/one/x.h
expect 1 'leaves/one/x.h includes leaves/two/y.h, another leaf of its kind' tests/spine.sh
rm leaves/one/x.h
mkdir -p parallel/codecs
for line in 'CodecEntry new_codec() {' 'ReductionEntry new_reduction() {' \
  'class New : public TransportAround {' 'class New final : public AskingObserver<bool, int> {'; do
  echo "$line" >parallel/codecs/new.cpp
  expect 1 'parallel/codecs/new.cpp registers something' tests/spine.sh
done
rm -r parallel
seq -f '// %g' 8701 >autograd/a.h
printf '#include "autograd/a.h"\n' >nn/models/n.h
expect 1 'the spine and what it includes have 870[0-9] lines, at most 8700' tests/spine.sh
seq -f '// %g' 6001 >nn/models/n.h
expect 1 'the spine has 600[0-9] lines, at most 6000' tests/spine.sh
: >nn/models/n.h
sed -i 1d tests/spine.txt
expect 1 'nn/models/n.cpp is on the spine without nn/models/n.h' tests/spine.sh
printf '%s\n' nn/models/n.h nn/models/n.cpp '# path autograd/a.h' >tests/spine.txt
expect 1 'autograd/a.h is on the path, and not on the spine' tests/spine.sh
{ printf 'nn/models/n.h\nnn/models/n.cpp\n# path'; printf ' nn/models/n.h%.0s' {1..15}; echo; } >tests/spine.txt
expect 1 'the path has 15 files, at most 14' tests/spine.sh
seq -f 'file%g.h' 51 >tests/spine.txt
expect 1 'the spine has 51 files, at most 50' tests/spine.sh
echo absent.cpp >tests/spine.txt
expect 1 'absent.cpp is not there' tests/spine.sh

# ---- size.sh, in a clone of its own
mkdir -p sizes/tests sizes/cuda/emulator sizes/autograd sizes/tutorials
cp "$root/tests/size.sh" sizes/tests/
size() { git -C sizes add . && sizes/tests/size.sh "$@"; }
expect 77 'skipped: this folder is no clone' sizes/tests/size.sh
git -C sizes init -q
seq 60000 >sizes/cuda/emulator/figure.svg
seq 60000 >sizes/tutorials/01.md
seq 20 >sizes/cuda/a.cu
seq 3 >sizes/autograd/a.h
expect 0 '^library  *23 .* 23 ' size
expect 0 '^emulator  *0 ' size
seq 60000 >sizes/cuda/emulator/a.h
expect 1 'size.sh: emulator has 60000 lines, at most' size
mv sizes/cuda/emulator/a.h sizes/cuda/page.js
expect 1 'size.sh: library has 60023 lines, at most' size
mv sizes/cuda/page.js sizes/tests/new_kind
expect 1 'size.sh: tests has 60[0-9]* lines, at most' size
mkdir sizes/attic
mv sizes/tests/new_kind sizes/attic/a.cpp
expect 1 'size.sh: attic is in no line of the limits' size

# ---- gpu.sh, with a program of four tests: one passes, one is skipped, one fails, and the last one
# passes alone only
cp "$root"/tests/gpu.sh "$root"/tests/gpu_pack.sh tests/
mkdir -p bin/benchmarks tests/benchmarks tests/references
cat >bin/tests_cuda <<'end'
#!/bin/sh
[ "$1" != --list-test-names-only ] || { printf 'one, two\ntraining: three\ntraining: <four>\ndevice transport: 5\n'; exit 4; }
if [ "$1" = -r ]; then
  echo '<TestCase name="one, two" line="1">'
  echo '<OverallResult success="true" durationInSeconds="0.5"/>'
  echo '<TestCase name="training: three" line="2">'
  echo '<OverallResults successes="1"/>'
  echo '<OverallResult success="false" durationInSeconds="0.25"/>'
  echo '<TestCase name="device transport: 5" line="2">'
  echo 'skipped: no devices'
  echo '<OverallResult success="true" durationInSeconds="0"/>'
  echo '<TestCase name="training: &lt;four>" line="4">'
  exit 139
fi
[ "$CUDA_LAUNCH_BLOCKING" = 1 ] && [ "$3" != 'training: three' ]
end
printf '#!/bin/sh\n' >bin/tests_examples
cp bin/tests_examples bin/benchmarks/ladder
chmod +x bin/tests_* bin/benchmarks/ladder
gpu() { tests/gpu.sh --emulator --no-build --bin bin --out out "$@"; }
expect 1 '2 of 4 tests passed, 1 failed, 1 were skipped, 0 were not run' gpu tests
expect 1 'FAILED  training: three (status 1)' gpu tests ladder
expect 0 '' grep -q '^passed .* training: <four>$' out/test_results.txt
expect 0 '' grep -q '^| ladder | passed' out/summary.md  # steps after the failed one run
expect 0 '' grep -q '^| pytorch | not run' out/summary.md
expect 0 '' grep -q '"step": "tests", "result": "FAILED"' out/summary.json
expect 0 'out/summary.json' tar -tzf out.tar.gz
expect 0 '| kernels_of_a_step | left out' gpu --resume kernels_of_a_step
expect 0 '| ladder | passed' cat out/summary.md
printf '#!/bin/sh\nsleep 60\n' >bin/benchmarks/ladder
expect 0 '| ladder | stopped' gpu --seconds 20 ladder  # which is no failure
expect 0 'out/ladder.md' tar -tzf out.tar.gz
printf '#!/bin/sh\n' >bin/benchmarks/ladder
expect 0 '| ladder | passed' gpu --resume ladder
expect 0 '| ladder | not run' gpu --seconds 1 ladder
expect 2 'elsewhere/tests_cuda is not there' tests/gpu.sh --emulator --bin elsewhere --out out tests
expect 2 'choose one' gpu build
expect 2 'programs of an ordinary build' tests/gpu.sh --emulator build
expect 2 'unknown argument' tests/gpu.sh --emulater
expect 2 'expected a whole number' gpu --seconds soon
expect 2 'is not there; build it first' tests/gpu.sh --emulator --bin bin --pack pack.tar.gz

# ---- gpu_kernel_table.py, with what ncu writes
cat >ncu.csv <<'end'
==PROF== Connected to process 7
"ID","Kernel Name","gpu__time_duration.sum","dram__bytes.sum","gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed","sm__throughput.avg.pct_of_peak_sustained_elapsed"
"","","nsecond","byte","%","%"
"0","void plangrad::cuda::<unnamed>::sum<float, 4>(const float*, int)","1,000","2,000","50.0","10.0"
"1","void plangrad::cuda::<unnamed>::sum<float, 4>(const float*, int)","3,000","6,000","90.0","10.0"
"2","gemm","6,000","600","5","80"
end
table() { "$root/tests/benchmarks/gpu_kernel_table.py" "$@"; }
expect 0 '^| `sum<float, 4>` | 2 | 0.004 | 40.0% | 2 | 80% | 10% |$' table ncu.csv
expect 0 '^| `gemm` | 1 | 0.006 | 60.0% | 0 | 5% | 80% |$' table ncu.csv --json kernels.json
expect 1 'no table of kernels' table "$root/tests/spine.txt"
exit $wrong
