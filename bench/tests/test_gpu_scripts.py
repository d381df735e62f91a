"""The scripts around gpu_bench, on made-up output: no GPU, no binary."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))
import gpu_counters  # noqa: E402

HEADER = (
    '"ID","Process ID","Kernel Name","dram__bytes_read.sum","dram__bytes_write.sum","lts__t_bytes.sum",'
    '"lts__t_sectors_srcunit_tex.sum"\n"","","","byte","byte","byte","sector"\n'
)
FORWARD = '"{}","7","void forward_kernel<__half, 128>(ForwardArgs)","4,194,304","1,024","5,000,000","131,072"\n'
MERGE = '"{}","7","merge_kernel(MergeArgs)","2,048","512","4,096","64"\n'
PLAN = {
    "suite": "packs", "case": "1,10/4096,416", "heads": "32/8", "dtype": "f16", "page_size": 32, "method": "default",
    "policy": "auto", "chosen": "trunk", "kv_bytes_distinct": 4194304, "kv_bytes_read": 8388608, "qo_bytes": 163840,
    "partial_bytes": 0, "device": "some GPU", "commit": "0123456789ab", "items": 8,
}  # fmt: skip


class CountersTest(unittest.TestCase):
    def test_kernels_go_with_the_run_that_launched_them(self):
        kernels = gpu_counters.read_kernels(HEADER + FORWARD.format(0) + MERGE.format(1) + FORWARD.format(2))
        rows = gpu_counters.join([PLAN, {**PLAN, "method": "node"}], kernels)
        self.assertEqual([row["method"] for row in rows], ["default", "default", "node"])
        self.assertEqual(rows[0]["dram_read_bytes"], 4194304)
        self.assertEqual(rows[0]["l2_sm_bytes"], 131072 * 32)
        self.assertEqual(rows[1]["dram_write_bytes"], 512)
        self.assertEqual(rows[2]["kv_bytes_read"], 8388608)
        self.assertNotIn("items", rows[0])

    def test_other_numbers_of_runs_are_refused(self):
        kernels = gpu_counters.read_kernels(HEADER + FORWARD.format(0))
        with self.assertRaisesRegex(SystemExit, "2 runs, but 1 forward"):
            gpu_counters.join([PLAN, PLAN], kernels)

    def test_other_units_are_refused(self):
        with self.assertRaisesRegex(SystemExit, "Mbyte"):
            gpu_counters.read_kernels(HEADER.replace('"byte"', '"Mbyte"') + FORWARD.format(0))


class CounterScriptTest(unittest.TestCase):
    """scripts/gpu_counters.sh with programs that stand in for ncu and gpu_bench."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.program("bench/gpu_bench", f"echo '{json.dumps(PLAN)}'")

    def program(self, name, body):
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/usr/bin/env bash\n{body}\n")
        path.chmod(0o755)

    def count(self):
        path = f"{self.folder}/bin:{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", ROOT / "scripts/gpu_counters.sh", self.folder, self.folder / "out"],
            capture_output=True, text=True, check=False, timeout=60, env={**os.environ, "PATH": path},
        )  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout, (self.folder / "out/counters.jsonl").read_text().splitlines()

    def test_rows_of_what_was_counted(self):
        (self.folder / "counted.csv").write_text(HEADER + FORWARD.format(0))
        self.program(
            "bin/ncu",
            f"""if [ "$1" = --import ]; then cat {self.folder}/counted.csv; exit; fi
echo "==PROF== Connected to process 7"
while [ "$1" != -o ]; do shift; done
touch "$2.ncu-rep"
"${{@:3}}" """,
        )
        _, rows = self.count()
        self.assertEqual([json.loads(row)["dram_read_bytes"] for row in rows], [4194304, 4194304])

    def test_says_so_where_counters_cannot_be_read(self):
        self.program("bin/ncu", 'echo "==ERROR== ERR_NVGPUCTRPERM: no permission"; exit 1')
        out, rows = self.count()
        self.assertEqual(rows, [])
        self.assertIn("policies: counters cannot be read here: skipped\n==ERROR== ERR_NVGPUCTRPERM", out)


if __name__ == "__main__":
    unittest.main()
