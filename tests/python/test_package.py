"""The installed package: it imports quickly and without torch; the C interface is as its list has it; the program."""

import ctypes
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import pytest
import trunkline
from trunkline import _abi

LIST = Path(__file__).resolve().parents[2] / "src" / "capi" / "abi.txt"


def fresh(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_import_takes_neither_torch_nor_long():
    code = (
        "import sys, time, numpy; begin = time.process_time(); import trunkline; took = time.process_time() - begin\n"
        "print(took, sorted({name.partition('.')[0] for name in sys.modules} & {'torch', 'scipy', 'tvm_ffi', 'cupy'}))"
    )
    took, modules = min((fresh(code).split(" ", 1) for _ in range(5)), key=lambda line: float(line[0]))
    assert modules.strip() == "[]"
    assert float(took) < 0.2


def test_structs_and_constants_are_those_of_the_c_interface():
    kinds = [kind for kind in vars(_abi).values() if isinstance(kind, type) and issubclass(kind, ctypes.Structure)]
    structs = {"trunkline_" + re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower(): kind for kind in kinds}
    structs.pop("trunkline__structure", None), structs.pop("trunkline_structure", None)
    seen = 0
    for line in LIST.read_text().splitlines():
        if found := re.match(r"struct (\w+) (\d+)$", line):
            assert ctypes.sizeof(structs[found[1]]) == int(found[2]), line
        elif found := re.match(r"  (\w+)\.(\w+) at (\d+), (\d+) bytes$", line):
            field = getattr(structs[found[1]], found[2])
            assert (field.offset, field.size) == (int(found[3]), int(found[4])), line
        elif found := re.match(r"constant TRUNKLINE_(\w+) (-?\d+)$", line):
            assert getattr(_abi, found[1]) == int(found[2]), line
        elif found := re.match(r"function .*?(trunkline_\w+)\(", line):
            assert found[1] in _abi.FUNCTIONS
        else:
            continue
        seen += 1
    assert seen > 300 and len(structs) > 20


def test_policies_are_the_librarys():
    library = trunkline._library.c
    for name, number in trunkline.POLICIES.items():
        assert library.trunkline_policy_name(number).decode() == name
    assert library.trunkline_policy_name(len(trunkline.POLICIES)) is None


def test_version_and_program():
    program = Path(sysconfig.get_path("scripts")) / "trunkline"
    if not program.exists():
        pytest.skip(f"{program} is not there: the package is not installed as a wheel")
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    assert trunkline.__version__ in said and trunkline.version().startswith(trunkline.__version__)
    run = [program, "run", "--tree", "1,4/64,32", "--heads", "8/2", "--check", "--repeat", "1"]
    assert subprocess.run(run, capture_output=True, text=True).returncode == 0


def test_machine():
    assert trunkline.cpu_info()["cores"] >= 1 and trunkline.cpu_info()["isa"] in ("portable", "avx2", "avx512")
    assert trunkline.supports(32, 8, 128, 16, dtype="bfloat16")
    refused = trunkline.supports(65, 1, 128)
    assert not refused and refused.reason
    profile = trunkline.Profile.named("h200-sxm")
    assert profile.info["device"] == "cuda" and profile.json()
    assert trunkline.Profile.parse(__import__("json").dumps(profile.json())).info == profile.info
    with pytest.raises(trunkline.Error):
        trunkline.Profile.named("h300")
    with pytest.raises(trunkline.FileError):
        trunkline.Profile.load("/nowhere.json")
    with pytest.raises(trunkline.FormatError):
        trunkline.Profile.parse("{")
    assert trunkline.Profile.measure_cpu(trunkline.Workers(1)).info["read_bytes_per_us"] > 0


def test_after_a_fork_the_child_has_workers_of_its_own():
    code = """
import os, numpy as np, trunkline
cache = np.ones((1, 16, 2, 64), np.float32)
def attend():
    return (trunkline.decode_attention(np.ones((1, 4, 64), np.float32), cache, cache, [[0]], [9]) == 1).all()
assert attend()
mine = trunkline.DecodeAttention(4, 2, 64, 16, dtype="float32")
mine.plan([[0]], [9])
def refused(use):
    try:
        use()
    except trunkline.ClosedError as error:
        return "forked" in str(error) or "closed" in str(error)
child = os.fork()
if child == 0:
    ran = lambda: mine.run(np.ones((1, 4, 64), np.float32), (cache, cache))
    os._exit(0 if attend() and refused(ran) and refused(lambda: mine.plan([[0]], [9])) else 1)
print(os.waitpid(child, 0)[1])
"""
    assert fresh(code).strip() == "0"


def test_explanations():
    step = trunkline.explain([[3, 8, 1], [3, 8, 4]], [40, 37], 8, 2, 64, 16, policy="trunk", title="Two <requests>")
    assert step.policy == "trunk" and step.statistics.kv_tokens_read == 45 and step.estimates["flat"] > 0
    assert "77 one request at a time, 45 read by this plan (42% saved), 45 distinct" in str(step)
    assert step.html.startswith("<!DOCTYPE html>") and "Two &lt;requests&gt;" in step.html
    assert step._repr_html_().startswith("<iframe srcdoc=") and "<script" not in step._repr_html_()
    on_gpu = trunkline.explain(
        [[3, 8, 1], [3, 8, 4]], [40, 37], 8, 2, 64, 16, device="cuda", profile=trunkline.Profile.named("h200-sxm")
    )
    assert on_gpu.info["device"] == "cuda"


def test_explaining_leaves_the_plan_in_use(tmp_path):
    attention = trunkline.DecodeAttention(4, 2, 64, 16, dtype="float32")
    attention.plan([[1], [1]], [9, 16])
    attention.explain().save(tmp_path / "plan.html")
    assert (tmp_path / "plan.html").stat().st_size > 10_000
    cache = np.ones((2, 16, 2, 64), np.float32)
    np.testing.assert_allclose(attention.run(np.ones((2, 4, 64), np.float32), (cache, cache)), 1, rtol=1e-6)


def test_forest():
    forest = trunkline.Forest.from_tree(parent=[1, -1, 1], tokens=[20, 100, 30], end_node=[0, 2, 1])
    assert (forest.rows, forest.total_tokens, forest.distinct_tokens) == (3, 350, 150)
    root, *children = forest.nodes
    assert (root.begin, root.end, root.requests_end - root.requests_begin) == (0, 100, 3)
    assert {child.end for child in children} == {120, 130} and sorted(forest.order) == [0, 1, 2]
    with pytest.raises(ValueError, match="tokens has shape"):
        trunkline.Forest.from_tree([-1], [1, 2], [0])
    with pytest.raises(ValueError):
        trunkline.Forest.from_tree([0], [1], [0])
