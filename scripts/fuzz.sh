#!/usr/bin/env bash
# Runs fuzz targets one after another, each in one process, from their committed corpora; fails when one finds a bug.
#
# Usage: scripts/fuzz.sh BUILD SECONDS [TARGET ...]    BUILD has TRUNKLINE_BUILD_FUZZERS; without TARGET all run
#
# What is found on top of the corpora stays in BUILD/found_TARGET. With RECORD=1 the counts of each target go to
# bench/results/fuzz.json; RUNS=N ends a target after N executions, or after SECONDS.
set -euo pipefail
cd "$(dirname "$0")/.."

build="$1" seconds="$2"
shift 2
targets=(fuzz/forest fuzz/live_events fuzz/sequence_tree fuzz/c_calls fuzz/profile_file tools/fuzz/batch_file
  tools/fuzz/trace_file)

wanted() {
  local name
  for name in "${@:2}"; do [ "$name" = "$1" ] && return; done
  [ $# = 1 ]
}

failed=0
for path in "${targets[@]}"; do
  target="${path##*/}" folder="tests/${path%/*}"
  wanted "$target" "$@" || continue
  found="$build/found_$target"
  mkdir -p "$found"
  "$build/$folder/fuzz_$target" -max_total_time="$seconds" -runs="${RUNS:--1}" -max_len=4096 -print_final_stats=1 \
    -artifact_prefix="$found/" "$found" "$folder/corpus/$target" 2>&1 | tee "$build/fuzz_$target.log" |
    grep -vE 'NEW|REDUCE|pulse|RELOAD' || failed=1
  if [ "${RECORD:-0}" = 1 ]; then
    python3 scripts/fuzz_record.py "$target" "$build/fuzz_$target.log" "$found" "$folder/corpus/$target"
  fi
done
exit "$failed"
