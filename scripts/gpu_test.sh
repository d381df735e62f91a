#!/usr/bin/env bash
# All GPU tests from a binary that may have been built elsewhere, then the program, then compute-sanitizer's four tools on
# a few of the tests.
# Needs a GPU and its driver; no network, no compiler. A sanitizer that is not here, or refuses the device, is skipped
# with a word.
# Usage: scripts/gpu_test.sh [BUILD]    (build/release unless given; TRUNKLINE_TEST_SCALE scales random tests)
set -uo pipefail
cd "$(dirname "$0")/.."

build="${1:-build/release}"
tests="$build/tests/cuda/trunkline_cuda_test"
if [ ! -x "$tests" ]; then
  echo "gpu_test: $tests is not there; build with -DTRUNKLINE_BUILD_TESTS=ON where nvcc is" >&2
  exit 1
fi
failed=0

echo "== all tests ($SECONDS s)"
"$tests" --gtest_brief=1 || failed=1

c_tests="$build/tests/capi/capi_cuda_test"
if [ -x "$c_tests" ]; then
  echo "== the C interface ($SECONDS s)"
  LD_LIBRARY_PATH="$build/src/capi" "$c_tests" --gtest_brief=1 || failed=1
fi

program="$build/src/cli/trunkline"
if [ -x "$program" ]; then
  echo "== the program: every launch and merge, checked and traced ($SECONDS s)"
  trace="$(mktemp)"
  for mode in persistent streams serial fixed; do
    for merge in fused separate; do
      if row="$("$program" run data/demo.jsonl --limit 1 --device cuda --mode "$mode" --merge "$merge" --policy node \
        --check --trace "$trace" --json)" && grep -q '"ph":"X"' "$trace"; then
        grep -oE '"(mode|merge|us|floor_us|bubble_share|max_err)":[^,]*' <<<"$row" | tr '\n' ' '
        echo
      else
        echo "gpu_test: trunkline run with $mode launches and $merge merge failed" >&2
        failed=1
      fi
    done
  done
  rm -f "$trace"
  echo "== the program: tune, and a run planned with what it measured ($SECONDS s)"
  profile="$(mktemp --suffix .json)"
  if ! "$program" tune --device cuda --out "$profile" ||
    ! "$program" run data/demo.jsonl --limit 1 --device cuda --kernels portable --machine "$profile" --check; then
    echo "gpu_test: trunkline tune, or a run with its profile, failed" >&2
    failed=1
  fi
  rm -f "$profile"
else
  echo "gpu_test: $program is not there: skipped"
fi

sanitizer="$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)"
if [ ! -x "$sanitizer" ]; then
  echo "gpu_test: compute-sanitizer is not here: skipped"
  exit "$failed"
fi
# Masks, draft trees, partials, all modes, graphs, planning, isolation and single queries; small, as each kernel runs up to a hundred times slower.
few='CudaMerge.*:CudaAcceptance.QueryEndingInsideANode:CudaSteps.AnOldPlanRunsOnReorderedRows'
few+=':CudaForest.*:CudaPlan.Equals*:CudaDevicePlans.Attend*:CudaDevicePlans.AGraph*:CudaDevicePlans.AfterBatches*'
few+=':CudaIsolation.Two*:CudaIsolation.Random*:CudaSingleQuery.*:CudaProperty.ManyShort*:CudaSteps.LengthsOutOfRange*:Modes/CudaGraphs.ReplaysWithChangedLengths/*:CudaProperty.EveryPolicy*'
# racecheck does not follow copies whose end an mbarrier tells (cp.async.mbarrier.arrive): it takes every tile of the ring
# for a race. All other accesses to shared memory are checked, but those of Hopper's forward kernels, where one lane
# arrives at an mbarrier for its warp: it takes what is handed over so for races, too.
# A cluster that plans has 96 mbarriers, more than synccheck keeps track of unless it is told: launches then fail.
declare -A options=([racecheck]="--racecheck-memcpy-async no --kernel-name-exclude kns=sm90"
                    [synccheck]="--num-cuda-barriers 4096")
for tool in memcheck racecheck initcheck synccheck; do
  echo "== $tool ($SECONDS s)"
  log="$(TRUNKLINE_TEST_SCALE=0.01 timeout "${TRUNKLINE_SANITIZER_SECONDS:-300}" "$sanitizer" --tool "$tool" ${options[$tool]:-} --error-exitcode 9 \
    "$tests" --gtest_brief=1 --gtest_filter="$few" 2>&1)"
  result=$?
  tail -n 12 <<<"$log"
  if grep -q "Device not supported" <<<"$log"; then
    echo "gpu_test: $tool refuses this device or driver: skipped"
  elif [ "$result" -eq 124 ]; then
    echo "gpu_test: $tool did not end in time, and had reported what is above"
  elif [ "$result" -ne 0 ]; then
    echo "gpu_test: $tool failed with exit code $result" >&2
    failed=1
  fi
done
echo "== done ($SECONDS s)"
exit "$failed"
