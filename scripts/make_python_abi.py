#!/usr/bin/env python3
"""Writes python/trunkline/_abi.py, the C interface as ctypes has it, from include/trunkline/trunkline.h.

    scripts/make_python_abi.py [--check]

Run it after a change of the header; the linter compares. The tests compare sizes and offsets with src/capi/abi.txt.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEADER = ROOT / "include" / "trunkline" / "trunkline.h"
OUTPUT = ROOT / "python" / "trunkline" / "_abi.py"

STRUCT = re.compile(r"typedef struct (trunkline_\w+) \{(.*?)\n\} \1;", re.DOTALL)
ENUM = re.compile(r"\benum \{(.*?)\};", re.DOTALL)
NUMBER = re.compile(r"typedef int32_t (trunkline_\w+);")
FUNCTION = re.compile(r"TRUNKLINE_API ([\w ]+?\*?) ?(trunkline_\w+)\(([^;]*)\);", re.DOTALL)
DECLARED = re.compile(r"(.+?)\s*(\w+)(?:\[(\d+)\])?$", re.DOTALL)
# ctypes' type, and what Python gets and gives
NUMBERS = {
    "size_t": ("c_size_t", "int"),
    "int32_t": ("c_int32", "int"),
    "uint32_t": ("c_uint32", "int"),
    "int64_t": ("c_int64", "int"),
    "uint64_t": ("c_uint64", "int"),
    "double": ("c_double", "float"),
    "float": ("c_float", "float"),
}


def class_name(struct):
    return "".join(part.capitalize() for part in struct.removeprefix("trunkline_").split("_"))


class Types:
    def __init__(self, header):
        self.numbers = NUMBERS | {name: NUMBERS["int32_t"] for name in NUMBER.findall(header)}
        self.structs = {name for name, _ in STRUCT.findall(header)}

    def of(self, text):
        """ctypes' type and Python's, of a C type; pointers are addresses."""
        text = text.strip()
        if "*" in text:
            return "c_void_p", "int | None"
        return self.numbers.get(text) or (class_name(text), class_name(text))


def struct_lines(name, body, types):
    fields = []
    for declaration in filter(None, (part.strip() for part in body.split(";"))):
        pointer = re.search(r"\(\*(\w+)\)\(", declaration)
        if pointer:
            fields.append((pointer.group(1), "c_void_p", "int | None"))
            continue
        kind, field, count = DECLARED.match(declaration).groups()
        if count:
            fields.append((field, f"c_char * {count}", "bytes"))
        else:
            fields.append((field, *types.of(kind)))
    yield f"class {class_name(name)}(Structure):"
    for field, _, python in fields:
        yield f"    {field}: {python}"
    pairs = ", ".join(f'("{field}", {c_type})' for field, c_type, _ in fields)
    yield f"    _fields_ = [{pairs}]"
    yield ""


def function_line(result, name, arguments, types):
    kinds = []
    for argument in filter(None, (part.strip() for part in arguments.split(","))):
        if argument != "void":
            kinds.append(types.of(argument if argument.endswith("*") else DECLARED.match(argument).group(1))[0])
    returned = "c_char_p" if "char" in result else "c_int32"
    listed = f"({', '.join(kinds)}{',' if len(kinds) == 1 else ''})"
    return f'    "{name}": ({returned}, {listed}),'


def listing(header):
    types = Types(header)
    yield '"""The C interface (trunkline.h) as ctypes has it. Written by scripts/make_python_abi.py."""'
    yield ""
    yield "from __future__ import annotations"
    yield ""
    names = sorted({c for c, _ in NUMBERS.values()} | {"c_char", "c_char_p", "c_void_p", "Structure"})
    yield f"from ctypes import {', '.join(names)}"
    yield "from typing import Any"
    yield ""
    yield f"ABI_VERSION = {re.search(r'#define TRUNKLINE_ABI_VERSION (.+)', header).group(1)}"
    for body in ENUM.findall(header):
        yield ""
        for entry in filter(None, (part.strip() for part in body.split(","))):
            yield entry.removeprefix("TRUNKLINE_")
    yield ""
    for name, body in STRUCT.findall(header):
        yield from struct_lines(name, body, types)
    yield "FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {"
    for result, name, arguments in FUNCTION.findall(header):
        yield function_line(result, name, arguments, types)
    yield "}"


def formatted(text):
    ruff = ROOT / ".venv" / "bin" / "ruff"
    if not ruff.is_file():
        sys.exit(f"make_python_abi: {ruff} is missing; make lint installs it")
    command = [str(ruff), "format", "--stdin-filename", str(OUTPUT), "-"]
    sorts = [str(ruff), "check", "--quiet", "--fix", "--select=I", "--stdin-filename", str(OUTPUT), "-"]
    for one in (sorts, command):
        text = subprocess.run(one, input=text, capture_output=True, text=True, check=True).stdout
    return text


def main():
    header = re.sub(r"//[^\n]*", "", HEADER.read_text(encoding="utf-8"))
    text = formatted("\n".join(listing(header)) + "\n")
    if "--check" not in sys.argv[1:]:
        OUTPUT.write_text(text, encoding="utf-8")
    elif not OUTPUT.exists() or OUTPUT.read_text(encoding="utf-8") != text:
        print(f"make_python_abi: {OUTPUT.relative_to(ROOT)} is not of this header; run this script", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
