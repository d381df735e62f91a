#!/usr/bin/env python3
"""Makes a folder by which Transformers finds FlashAttention 3 where SGLang's kernels are installed.

    python3 bench/runtime/flash_interface.py FOLDER      # then FOLDER in PYTHONPATH, before Python starts

Transformers calls the package flash-attn-3 by its module flash_attn_interface. PyPI has no wheel of it, and sgl_kernel
has the same functions: the module made here hands them on, keys and values that are appended included.
"""

import pathlib
import sys

MODULE = """from sgl_kernel.flash_attn import flash_attn_varlen_func, flash_attn_with_kvcache

flash_attn_func = None  # of batches without paged caches, which generate_batch does not use
"""
METADATA = "Metadata-Version: 2.1\nName: flash-attn-3\nVersion: 3.0.0\n"


def make(folder: pathlib.Path) -> None:
    about = folder / "flash_attn_3-3.0.0.dist-info"
    about.mkdir(parents=True, exist_ok=True)
    (folder / "flash_attn_interface.py").write_text(MODULE)
    (about / "METADATA").write_text(METADATA)
    (about / "top_level.txt").write_text("flash_attn_interface\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    make(pathlib.Path(sys.argv[1]))
