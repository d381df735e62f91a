#!/usr/bin/env python3
"""Compares libtrunkline.so with the committed list of its symbols, and the structs and constants of its header.

    scripts/check_abi.py --library build/release/src/capi/libtrunkline.so [--write]

A line that is missing or different breaks programs that were compiled with an earlier header: then the soname must
change. A line that is new is an addition, for which TRUNKLINE_ABI_VERSION grows, once for each release. Either way,
--write rewrites the list, and the change is committed with it. The list is of 64-bit Linux; structs are
the same wherever the C compiler is LP64.
"""

import argparse
import difflib
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEADER = ROOT / "include" / "trunkline" / "trunkline.h"
EXPERIMENTAL = HEADER.with_name("experimental.h")  # not listed: what it has may change at any time
LIST = ROOT / "src" / "capi" / "abi.txt"

COMMENT = re.compile(r"//[^\n]*")
DIRECTIVE = re.compile(r"^#[^\n]*", re.MULTILINE)
STRUCT = re.compile(r"typedef struct (trunkline_\w+) \{(.*?)\n\} \1;", re.DOTALL)
ENUM = re.compile(r"\benum \{(.*?)\};", re.DOTALL)
FIELD = re.compile(r"(\w+)(?:\[[^\]]*\])?$")
FUNCTION_FIELD = re.compile(r"\(\*(\w+)\)\(")
FUNCTION = re.compile(r"TRUNKLINE_API ([^;]+);", re.DOTALL)


def fields_of(body):
    for declaration in body.split(";"):
        declaration = declaration.strip()
        if declaration:
            pointer = FUNCTION_FIELD.search(declaration)
            yield (pointer or FIELD.search(declaration)).group(1)


def listing_program(header):
    """A C program that prints what the compiler makes of the header's structs and constants."""
    lines = ["#include <stdio.h>", "#include <trunkline/trunkline.h>", "int main(void) {"]
    for name, body in STRUCT.findall(header):
        lines.append(f'printf("struct {name} %zu\\n", sizeof({name}));')
        for field in fields_of(body):
            place = f"offsetof({name}, {field}), sizeof((({name}*)0)->{field})"
            lines.append(f'printf("  {name}.{field} at %zu, %zu bytes\\n", {place});')
    for body in ENUM.findall(header):
        for entry in body.split(","):
            constant = entry.split("=")[0].strip()
            if constant:
                lines.append(f'printf("constant {constant} %d\\n", (int){constant});')
    lines += ["return 0;", "}"]
    return "\n".join(lines) + "\n"


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def structs_and_constants(header, compiler):
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "listing.c"
        program = pathlib.Path(folder) / "listing"
        source.write_text(listing_program(header), encoding="utf-8")
        run(
            compiler, "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{ROOT / 'include'}", source,
            "-o", program,
        )  # fmt: skip
        return run(program).splitlines()


def prototypes(header):
    return sorted(f"function {' '.join(text.split())}" for text in FUNCTION.findall(header))


def exported(library):
    """The library's exported symbols but the name of its version script's one version."""
    names = (line.split()[-1] for line in run("nm", "-D", "--defined-only", library).splitlines())
    return sorted({name.split("@")[0] for name in names} - {"TRUNKLINE_0"})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", required=True)
    parser.add_argument("--cc", default=os.environ.get("CC", "cc"))
    parser.add_argument("--write", action="store_true", help="rewrite the committed list")
    arguments = parser.parse_args()

    text = COMMENT.sub("", HEADER.read_text(encoding="utf-8"))
    abi = re.search(r"#define TRUNKLINE_ABI_VERSION (\d+)", text).group(1)
    header = DIRECTIVE.sub("", text)
    functions = prototypes(header)
    symbols = exported(arguments.library)
    experimental = prototypes(COMMENT.sub("", EXPERIMENTAL.read_text(encoding="utf-8")))
    declared = sorted(re.search(r"(trunkline_\w+)\(", line).group(1) for line in [*functions, *experimental])
    if symbols != declared:
        for name in sorted(set(symbols) ^ set(declared)):
            where = "exported, but in no header" if name in symbols else "in a header, but not exported"
            print(f"check_abi: {name} is {where}", file=sys.stderr)
        sys.exit(1)

    version = run("readelf", "-d", arguments.library)
    soname = re.search(r"SONAME.*\[(.+)\]", version).group(1)
    lines = [f"soname {soname}", f"version {abi}", *functions, *structs_and_constants(header, arguments.cc)]
    text = "\n".join(lines) + "\n"
    if arguments.write:
        LIST.write_text(text, encoding="utf-8")
        print(f"check_abi: wrote {LIST.relative_to(ROOT)}: {len(functions)} functions, {len(lines)} lines")
        return
    committed = LIST.read_text(encoding="utf-8")
    if text != committed:
        changes = difflib.unified_diff(
            committed.splitlines(), text.splitlines(), "committed", "built", lineterm="", n=0
        )
        print("\n".join(changes), file=sys.stderr)
        print("check_abi: the interface differs from src/capi/abi.txt; see this script's head", file=sys.stderr)
        sys.exit(1)
    print(f"check_abi: {len(functions)} functions and the layout of all structs are as in src/capi/abi.txt")


if __name__ == "__main__":
    main()
