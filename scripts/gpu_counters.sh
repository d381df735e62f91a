#!/usr/bin/env bash
# What runs read and wrote by the GPU's own counters, with Nsight Compute: policies on PAT's trees (its figure 12b), and
# a few cases of each suite. Rows go to OUT/counters.jsonl. Each kernel runs once, with cold caches; times mean nothing
# here. Where counters cannot be read, says so and goes on.
# Usage: scripts/gpu_counters.sh BUILD OUT
set -uo pipefail
cd "$(dirname "$0")/.."
bench="$1/bench/gpu_bench"
out="$2"
mkdir -p "$out"

ncu="$(command -v ncu || ls -d /usr/local/cuda/bin/ncu /opt/nvidia/nsight-compute/*/ncu 2>/dev/null | tail -n 1)"
if [ -z "$ncu" ]; then
  echo "gpu_counters: Nsight Compute (ncu) is not here: skipped"
  exit 0
fi
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
export LC_ALL=C  # of numbers in the CSV
metrics=dram__bytes_read.sum,dram__bytes_write.sum,lts__t_bytes.sum,lts__t_sectors_srcunit_tex.sum
: >"$out/counters.jsonl"

count() {  # name, options of gpu_bench
  local name="$1"
  shift
  # Clocks are left as they are: bytes do not depend on them.
  if ! timeout 280 "$ncu" --profile-from-start off --cache-control all --clock-control none --metrics "$metrics" \
    --force-overwrite -o "$work/$name" "$bench" --once --data data --threads "$(nproc)" "$@" \
    >"$work/$name.txt" 2>"$work/$name.err" || [ ! -e "$work/$name.ncu-rep" ]; then
    echo "gpu_counters: $name: counters cannot be read here: skipped"
    grep -h -E '==ERROR==|==WARNING==|gpu_bench:' "$work/$name.txt" "$work/$name.err" | head -n 5
    return
  fi
  "$ncu" --import "$work/$name.ncu-rep" --csv --page raw --print-units base >"$work/$name.csv" &&
    python3 bench/gpu_counters.py "$work/$name.txt" "$work/$name.csv" >>"$out/counters.jsonl" ||
    echo "gpu_counters: $name: ncu's report cannot be read: skipped"
  echo "$name: $(wc -l <"$out/counters.jsonl") rows in all ($SECONDS s)"
}

count policies packs
# The trunk at each page size as well: what looking up pages adds.
count suites --heads 32/8 --case 1x32768 --case 64x8192 --case 1,4,16,512/1024,256,128,32 --case 'vary-batch, 16' \
  --case t64_p4096_b8 --case toolagent_pat_style#0 --case 1,8,512/512,512,256 flat fasttree codec trees batches pages
