#!/usr/bin/env bash
# Tests, sanitizers, then the benchmark suites on a machine with a GPU, from binaries that may have been built elsewhere:
# one command, no network, no compiler. Rows and logs go to OUT; bench/gpu_collect.py files them.
# Usage: scripts/gpu_bench.sh BUILD OUT [PART ...]
#   PART  tests, flat, pat, fasttree, batches, ablation; all of them unless given
set -uo pipefail
cd "$(dirname "$0")/.."
build="$1"
out="$2"
parts=" ${*:3} "
mkdir -p "$out"
wanted() { [ "$parts" = "  " ] || [[ "$parts" == *" $1 "* ]]; }

if wanted tests; then
  bash scripts/gpu_test.sh "$build" 2>&1 | tee "$out/tests.txt" || exit 1
fi

bench="$build/bench/gpu_bench"
suite() {  # file, options: rows are appended
  local file="$1"
  shift
  "$bench" --data data --recorded bench/recorded/h200.json --threads "$(nproc)" "$@" >>"$out/$file.jsonl" || echo "gpu_bench $* failed" >&2
  echo "$file: $(wc -l <"$out/$file.jsonl") rows ($SECONDS s)"
}
for name in flat pat fasttree batches; do
  if wanted "$name"; then suite "$name" "$name"; fi
done
# PAT's ablations, on its trees at 32/8: launches of one tile in turn, each on a stream, one tile for all, its own packs,
# and one pack a node.
if wanted ablation; then
  suite ablation --heads 32/8 --mode serial pat
  suite ablation --heads 32/8 --mode streams pat
  suite ablation --heads 32/8 --policy profit pat
  suite ablation --heads 32/8 --policy profit --tile 64x64 pat
  suite ablation --heads 32/8 --policy node pat
  suite ablation --heads 32/8 --policy flat pat
fi

query() { nvidia-smi --query-gpu="$1" --format=csv,noheader | head -n 1; }
cat >"$out/environment.json" <<JSON
{"command": "scripts/gpu_bench.sh BUILD OUT", "gpu": "$(query name)", "driver": "$(query driver_version)",
 "sm_clock": "$(query clocks.sm)", "memory_clock": "$(query clocks.mem)"}
JSON
