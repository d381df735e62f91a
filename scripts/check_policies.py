#!/usr/bin/env python3
"""Checks that each row of the table of policies is known wherever policies are named; prints what is missing.

The table is in src/plan/policies/policy_table.cpp. Add a policy there, and this script says what else it needs.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLE = "src/plan/policies/policy_table.cpp"
ROW = re.compile(r"PolicyInfo\{\s*\.policy = Policy::k(\w+),\s*\.name = \"(\w+)\"")
ENUMERATOR = re.compile(r"^  k(\w+) = (\d+),", re.MULTILINE)
CONSTANT = re.compile(r"\bTRUNKLINE_POLICY_(\w+) = (\d+)")


def text_of(path):
    return (ROOT / path).read_text(encoding="utf-8")


def enumerators():
    body = re.search(r"enum class Policy [^{]*\{(.*?)\n\};", text_of("include/trunkline/plan.hpp"), re.DOTALL)[1]
    return {name: int(number) for name, number in ENUMERATOR.findall(body)}


def faults():
    rows = ROW.findall(text_of(TABLE))
    if not rows:
        yield f"{TABLE} has no row that this script can read"
    numbers = enumerators()
    constants = {name: int(number) for name, number in CONSTANT.findall(text_of("include/trunkline/trunkline.h"))}
    sources = text_of("src/plan/CMakeLists.txt")
    python = text_of("python/trunkline/plans.py")
    policies = text_of("docs/concepts/policies.md")
    concepts = text_of("docs/concepts/overview.md")
    for enumerator, name in [*rows, ("Auto", "auto")]:
        number = numbers.get(enumerator)
        if number is None:
            yield f"include/trunkline/plan.hpp: Policy lacks k{enumerator} = <number>"
        constant = f"TRUNKLINE_POLICY_{name.upper()}"
        if constants.pop(name.upper(), None) != number:
            yield f"include/trunkline/trunkline.h: {constant} = {number} is needed, Policy::k{enumerator}'s number"
        if f'"{name}": _abi.POLICY_{name.upper()},' not in python:
            yield f"python/trunkline/plans.py: POLICIES lacks {name}"
        if name != "auto" and f"policies/{name}.cpp" not in sources:
            yield f"src/plan/CMakeLists.txt: policies/{name}.cpp is not listed"
        for path, text in (("docs/concepts/policies.md", policies), ("docs/concepts/overview.md", concepts)):
            if f"\n| `{name}` |" not in text:
                yield f"{path}: the table of policies lacks `{name}`"
        if f"\n## {name}\n" not in policies:
            yield f"docs/concepts/policies.md: a section '## {name}' is needed"
    for name in constants:
        yield f"{TABLE}: TRUNKLINE_POLICY_{name} of trunkline.h has no row"
    for name in numbers.keys() - {enumerator for enumerator, _ in rows} - {"Auto"}:
        yield f"{TABLE}: Policy::k{name} has no row"


def main():
    found = list(faults())
    for fault in found:
        print(f"check_policies: {fault}", file=sys.stderr)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
