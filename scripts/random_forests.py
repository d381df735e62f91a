#!/usr/bin/env python3
"""Runs the property tests of random forests at a larger scale, and writes their counts to bench/results/fuzz.json.

scripts/random_forests.py BUILD SCALE [TEST ...]    # SCALE times the forests of a plain test run; tests by their names
"""

import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
import time

from fuzz_record import RESULTS, ROOT, git

# name: binary, gtest's name, source, what is compared
TESTS = {
    "cpu_backends": (
        "exec/exec_test",
        "ExecutorProperty.EveryPolicyAndCutMatchesTheOracle",
        "tests/exec/property_test.cpp",
        "outputs of every policy and cut with plain attention in fp64, each plan on a random instruction set",
    ),
    "host_plans": (
        "plan/plan_test",
        "PlanProperty.EveryPolicySplitAndGroupSizeIsValidAndStaysSo",
        "tests/plan/plan_property_test.cpp",
        "plans of every policy and cut by the validator, and played token by token",
    ),
    "device_plans": (
        "plan/device_planner_test",
        "DevicePlan.RandomForests",
        "tests/plan/device/plan_test.cpp",
        "plans of the device planner, its threads emulated on the CPU, with the host's",
    ),
}


def forests_of(source: str, test: str) -> int:
    """The forests of a plain run: the first scaled(N) after the test's begin."""
    suite, name = test.split(".")
    found = re.search(rf"TEST\({suite}, {name}\).*?scaled\((\d+)\)", (ROOT / source).read_text(), re.DOTALL)
    assert found is not None
    return int(found.group(1))


def main() -> None:
    build, scale = pathlib.Path(sys.argv[1]), float(sys.argv[2])
    for key in sys.argv[3:] or TESTS:
        binary, test, source, compared = TESTS[key]
        begin = time.monotonic()
        environment = os.environ | {"TRUNKLINE_TEST_SCALE": str(scale)}
        words = [str(build / "tests" / binary), f"--gtest_filter={test}", "--gtest_brief=1"]
        passed = subprocess.run(words, env=environment, stdout=sys.stderr, check=False).returncode == 0
        row = {
            "forests_of": key,
            "date": datetime.date.today().isoformat(),
            "commit": git("rev-parse", "--short=12", "HEAD"),
            "test": test,
            "compared": compared,
            "forests": int(forests_of(source, test) * scale),
            "seconds": round(time.monotonic() - begin),
            "mismatches": 0 if passed else "see the test's output",
        }
        rows = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
        rows = [other for other in rows if other.get("forests_of") != key] + [row]
        RESULTS.write_text("[\n" + ",\n".join("  " + json.dumps(each) for each in rows) + "\n]\n")


if __name__ == "__main__":
    main()
