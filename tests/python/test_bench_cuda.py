"""The comparison on a GPU, tried out on the CPU, and its part of bench/results/python/README.md on made rows."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"
sys.path[:0] = [str(BENCH), str(BENCH / "python")]
import python_gpu_tables  # noqa: E402

ROW = {
    "suite": "unshared", "case": "64/1024", "heads": "32/8", "head_dim": 128, "dtype": "f16", "page_size": 16,
    "requests": 64, "copies": 3, "repeat": 21, "kv_tokens_total": 65536, "kv_tokens_distinct": 65536, "chosen": "flat",
    "max_err": 1e-4, "us": 80.0, "eager_us": 90.0, "flat_us": 80.0, "flat_eager_us": 90.0, "sdpa_us": 160.0,
    "sdpa_eager_us": 900.0, "gather_us": 40.0, "gather_eager_us": 50.0, "run_host_us": 9.0, "plan_us": 60.0,
    "recorded_us": {"flashinfer_fa2": 100.0, "flashinfer_xqa": 72.0, "flashinfer_cascade_best_cut": 1.0},
    "device": "A GPU", "driver": "580.1", "cuda": "13.0", "torch": "2.11", "version": "0.1.0 (abc)", "command": "x --y",
}  # fmt: skip


def test_nothing_without_rows():
    assert python_gpu_tables.section([]) == []


def test_tables():
    flex = {name: value for name, value in ROW.items() if not name.startswith("sdpa")}
    rows = [ROW, flex | {"suite": "flex", "flex_us": 200.0, "flex_eager_us": 300.0, "flex_first_s": 7.0}]
    text = "\n".join(python_gpu_tables.section(rows))
    assert "## On A GPU" in text and "`x --y`" in text
    # No padded SDPA in this row; FlashInfer's best is one that users have.
    ratios = ["1.00 (1.00 to 1.00)", "2.00 (2.00 to 2.00)", "-", "0.50 (0.50 to 0.50)"]
    assert f"| unshared | 1 | {' | '.join(ratios)} | 1.25 (1.25 to 1.25) | 0.90 (0.90 to 0.90) |" in text
    assert "Faster than `auto`: FlashInfer's best, recorded in 64/1024 (0.90x)." in text
    assert "| 64/1024 | 64 | 80.0 | 200.0 | 2.50 | 90.0 | 300.0 | 7 |" in text


def test_rows_of_methods_on_the_same_copy_say_so():
    old, new = ("\n".join(python_gpu_tables.section([row])) for row in (ROW, ROW | {"copies_apart": True}))
    assert python_gpu_tables.SAME_COPY in old and python_gpu_tables.SAME_COPY not in new


@pytest.mark.parametrize(("works", "copies"), [(1, 1), (2, 2), (2, 97), (3, 100), (4, 6105)])
def test_a_copy_is_read_again_after_the_others(works, copies):
    pytest.importorskip("torch", reason="torch is not installed")
    from replay_timers import copy_at

    read: dict[int, int] = {}
    between = []
    for number in range(3 * copies * works):
        copy = copy_at(number // works, number % works, works, copies)
        if copy in read:
            between.append(number - read[copy])
        read[copy] = number
    assert len(read) == copies
    # All copies but a few are read before one is read again.
    assert min(between) >= copies - 2 * works


def test_on_the_cpu(tmp_path):
    pytest.importorskip("torch", reason="torch is not installed")
    rows = tmp_path / "rows.jsonl"
    command = [sys.executable, BENCH / "python/compare_cuda.py", "--device", "cpu", "--repeat", "1", "--out", rows]
    command += ["--cases", "reasoning_sorting128:1", "32/100", "--flex", "reasoning_sorting128:1", "32/100"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in rows.read_text().splitlines()]
    assert [row["suite"] for row in found] == ["reasoning", "unshared", "flex", "flex"]
    for row in found:
        methods = ["flex_"] if row["suite"] == "flex" else ["sdpa_", "sdpa_padded_"]
        for name in ["", "flat_", *methods]:
            assert row[f"{name}max_err"] < 2e-3 and row[f"{name}eager_us"] > 0
    assert found[0]["recorded_us"]["flashinfer_fa2"] == 15.9
