"""Writes docs/concepts/models.md: which kernels run the full-attention layers of models that are served.

python3 scripts/make_model_table.py           # from data/models.json and the lists of compiled kernels
python3 scripts/make_model_table.py --check   # fails where the page is not what they say
"""

import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/concepts/models.md"
FAMILIES = {"Hopper": "sm90", "portable": "sm80"}  # in the order in which `auto` prefers them
MAX_GROUP = 64  # query heads a KV head, in all kernels
HEAD = """# Models

Which of Trunkline's kernels run the decode attention of models that are served, on one rank.
`scripts/make_model_table.py` makes this page from [data/models.json](../../data/models.json) and from the lists of
compiled kernels (`TRUNKLINE_SM90_KERNELS`, `TRUNKLINE_SM80_KERNELS`); [README](../../README.md#what-runs-where) says
what was measured. On H100 and H200 it is the Hopper kernels where they have the head size, on other GPUs the portable
ones. fp16 and bf16; KV caches of 8 bits run on the Hopper kernels. Layers with a window or chunks, and MLA, are left
to the engine.

| model | query/KV heads | head size | layers | kernels | beside these |
|---|---|---:|---|---|---|
"""


def compiled(folder: str) -> set[int]:
    """Head sizes in a family's list."""
    text = (ROOT / f"src/exec/cuda/kernels/{folder}/forward/config.hpp").read_text()
    return {int(size) for size in re.findall(r"ENTRY\(k\w+, (\d+)\)", text)}


def kernels_of(model: dict) -> str:
    """The families that run its layers, the preferred one first, or why none does."""
    if model["features"]:
        return "none: " + ", ".join(model["features"])
    group = model["q_heads"] // model["kv_heads"]
    if group > MAX_GROUP:
        return f"none: {group} query heads a KV head"
    families = [name for name, folder in FAMILIES.items() if model["head_dim"] in compiled(folder)]
    return ", ".join(families) or f"none: head size {model['head_dim']}"


def page() -> str:
    models = json.loads((ROOT / "data/models.json").read_text())["models"]
    rows = [
        f"| {model['model']} | {model['q_heads']}/{model['kv_heads']} | {model['head_dim']} | {model['layers']} "
        f"| {kernels_of(model)} | {model['remark']} |"
        for model in models
    ]
    return HEAD + "\n".join(rows) + "\n"


def main() -> int:
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(page())
        return 0
    if PAGE.exists() and PAGE.read_text() == page():
        return 0
    print(f"{PAGE.relative_to(ROOT)} is not what the lists say: python3 scripts/make_model_table.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
