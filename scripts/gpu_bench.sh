#!/usr/bin/env bash
# Tests, sanitizers, then the benchmark suites on a machine with a GPU, from binaries that may have been built elsewhere:
# one command, no network, no compiler. Rows and logs go to OUT; bench/gpu_collect.py files them.
# Usage: scripts/gpu_bench.sh BUILD OUT [PART ...]
#   PART  tests, flat, pat, fasttree, codec, trees, batches, small, rows, ragged, growth, policies, ablation, merge,
#         equivalence, pages, bf16, shapes, variants, counters; all of them unless given. Each takes some minutes at
#         most: after TRUNKLINE_BENCH_SECONDS (300) a suite ends with the case that it is at.
set -uo pipefail
cd "$(dirname "$0")/.."
build="$1"
out="$2"
parts=" ${*:3} "
mkdir -p "$out"
wanted() { [ "$parts" = "  " ] || [[ "$parts" == *" $1 "* ]]; }
failed=0

query() { nvidia-smi --query-gpu="$1" --format=csv,noheader | head -n 1; }
# What scales tests and bounds times belongs to the command.
settings="$(env | grep -E '^TRUNKLINE_(TEST_SCALE|SANITIZER_SECONDS|BENCH_SECONDS)=' | sort | tr '\n' ' ')"
cat >"$out/environment.json" <<JSON
{"command": "$(echo "$settings"scripts/gpu_bench.sh BUILD OUT "${@:3}")", "commit": "$("$build/tools/cli/trunkline" --version | sed 's/.*(\(.*\))/\1/')", "gpu": "$(query name)", "driver": "$(query driver_version)",
 "sm_clock": "$(query clocks.sm)", "memory_clock": "$(query clocks.mem)"}
JSON

if wanted tests; then
  bash scripts/gpu_test.sh "$build" 2>&1 | tee "$out/tests.txt" || exit 1
fi

suite() {  # part, options: rows go to a file of its name
  local part="$1"
  shift
  wanted "$part" || return 0
  "$build/bench/gpu_bench" --data data --recorded bench/recorded/h200.json --threads "$(nproc)" \
    --seconds "${TRUNKLINE_BENCH_SECONDS:-300}" "$@" >"$out/$part.jsonl" || { echo "gpu_bench $* failed" >&2; failed=1; }
  echo "$part: $(wc -l <"$out/$part.jsonl") rows ($SECONDS s)"
}
for part in flat pat fasttree codec trees batches small rows ragged growth policies ablation merge equivalence pages; do
  suite "$part" "$part"
done
suite bf16 --dtype bf16 --heads 32/8 flat pat

# Rows that are compared with each other: a line names what they compare.
compared() {  # file, what the rows compare, suites, gpu_bench's options
  local file="$1" compares="$2" suites="$3"
  shift 3
  for name in $suites; do
    "$build/bench/gpu_bench" --data data --threads "$(nproc)" --seconds "${TRUNKLINE_BENCH_SECONDS:-300}" "$@" "$name" |
      sed "s/^{/{\"compares\": \"$compares\", /" >>"$out/$file.jsonl"
    [ "${PIPESTATUS[0]}" -eq 0 ] || { echo "gpu_bench $* $name failed" >&2; failed=1; }
  done
}
# Other head sizes, page sizes and places of tokens than the suites'.
if wanted shapes; then
  : >"$out/shapes.jsonl"
  for heads in 32/8 24/4 16/2; do compared shapes shapes "pat fasttree" --head-dim 256 --as "$heads" --dtype bf16; done
  for heads in 32/8 64/8; do compared shapes shapes "pat fasttree" --head-dim 64 --as "$heads" --dtype bf16; done
  compared shapes pages "flat pat batches" --as 32/8 --page-size 16
  compared shapes pages "flat pat batches" --as 32/8 --page-size 1
  compared shapes pages "flat pat batches" --as 32/8 --page-size 1 --pages shuffled
  echo "shapes: $(wc -l <"$out/shapes.jsonl") rows ($SECONDS s)"
fi

# K and V of 8 bits, sinks and soft caps, beside the same cases without.
if wanted variants; then
  : >"$out/variants.jsonl"
  for dtype in f16 bf16; do
    compared variants none "flat pat" --as 32/8 --dtype "$dtype"
    compared variants fp8 "flat pat" --as 32/8 --dtype "$dtype" --kv-dtype f8_e4m3
  done
  compared variants sinks "flat pat" --as 32/8 --sinks on
  compared variants soft_cap "flat pat" --as 32/8 --soft-cap 50
  echo "variants: $(wc -l <"$out/variants.jsonl") rows ($SECONDS s)"
fi

if wanted counters; then
  bash scripts/gpu_counters.sh "$build" "$out"
fi
exit "$failed"
