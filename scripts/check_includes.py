#!/usr/bin/env python3
"""Checks that includes point one way; prints each that does not, and exits with 1 if there is any."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# What each folder of src/ and tools/ may include from them, besides itself. src/ includes nothing from tools/.
SRC = {
    "base": set(),
    "machine": {"base"},
    "forest": {"base"},
    "plan": {"base", "machine", "forest"},
    "live": {"base", "machine", "forest", "plan"},
    "exec": {"base", "machine", "forest", "plan", "live"},
    "kv": {"base"},
    "runtime": {"base", "machine", "forest", "plan", "live", "exec", "kv"},
    "report": {"base", "machine", "forest", "plan"},
    "capi": {"base", "machine", "forest", "plan", "live", "exec", "kv", "runtime", "report"},
}
LIBRARY = set(SRC) - {"capi"}
TOOLS = {
    "synthetic": LIBRARY,
    "replay": {*LIBRARY, "synthetic"},
    "cli": {*LIBRARY, "synthetic", "replay"},
}
ALLOWED = {"src": SRC, "tools": TOOLS}
CUDA_FOLDERS = {("src", "exec", "cuda"), ("tools", "cli", "cuda")}
SUFFIXES = {".hpp", ".cpp", ".cu", ".cuh", ".h"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
DEVICE = re.compile(r"^(cuda|cub/|thrust/|nvtx|torch/|ATen/|c10/)")
INTRINSIC = re.compile(
    r"\b(?:__(?:clz|popc|ffs|shfl|ballot|syncthreads|syncwarp|activemask|match|reduce|ldg|threadfence|nanosleep)\w*"
    r"|atomic(?:Add|CAS|Exch|Max|Min|Or)|(?:thread|block)Idx|(?:block|grid)Dim|cvta_\w+)\b"
)
STANDARD = re.compile(r"^[a-z_]+$")  # <vector>, never <x.h> or <library/x>
STANDARD_C = {"stddef.h", "stdint.h"}  # in the C header


def includes_of(path):
    return INCLUDE.findall(path.read_text(encoding="utf-8"))


def source_faults(path):
    parts = path.relative_to(ROOT).parts
    room, folder = parts[:2]
    for _, name in includes_of(path):
        target = name.split("/")[0]
        if DEVICE.match(name) and parts[:3] not in CUDA_FOLDERS:
            yield f"{name}: CUDA and torch belong into src/exec/cuda, and CUDA into tools/cli/cuda"
        if (target in SRC or target in TOOLS) and target not in {folder, *ALLOWED[room][folder]}:
            yield f"{name}: {room}/{folder} may not include from {'src' if target in SRC else 'tools'}/{target}"
        if parts[1:3] == ("exec", "reference") and target == "plan":
            yield f"{name}: the reference runs plans by their public form alone"
        if name.startswith("CLI/") and path.name != "options.cpp":
            yield f"{name}: only tools/cli/options.cpp includes CLI11, which is slow to compile"


def device_code_faults(path):
    """Code that both compilers see is the same for both: the host's tests run what a device runs."""
    if path.relative_to(ROOT).parts[:3] in CUDA_FOLDERS:
        return
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        found = INTRINSIC.search(line.split("//")[0])
        if found:
            yield f"line {number}: {found[0]}: device code belongs into src/exec/cuda and tools/cli/cuda"


def public_faults(path):
    for bracket, name in includes_of(path):
        if bracket == '"' and not name.startswith("trunkline/"):
            yield f"{name}: a public header includes public headers only"
        if bracket == "<" and not STANDARD.match(name) and not (path.suffix == ".h" and name in STANDARD_C):
            yield f"{name}: a public header includes the standard library only"


def main():
    faults = 0
    checks = {"src": [source_faults, device_code_faults], "include": [public_faults]}
    checks["tools"] = checks["src"]
    for folder, checks_of in checks.items():
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix not in SUFFIXES:
                continue
            for fault in (fault for check in checks_of for fault in check(path)):
                print(f"{path.relative_to(ROOT)}: {fault}", file=sys.stderr)
                faults += 1
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
