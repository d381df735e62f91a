#!/usr/bin/env python3
"""Writes bench/results/h200/README.md, and its plots, from the rows beside it.

python3 bench/gpu_report.py           # writes all; the plots need bench/requirements-plots.txt
python3 bench/gpu_report.py --check   # fails when they are not what the rows say; needs no package
"""

import json
import pathlib
import re
import sys
import textwrap

import gpu_floors
import gpu_growth_plot
import gpu_pat_plot
import gpu_plot
import gpu_recorded
import gpu_suite_tables
import gpu_tables
import pages
from gpu_rows import COMPARISONS, RESULTS, SUITES, by, kernels, load
from source_trees import changed_parts, commits_since, present_trees

PAGE = RESULTS / "README.md"
# By the rows that they are drawn of.
PLOTS = {"pat": gpu_pat_plot.PLOT, "growth": gpu_growth_plot.PLOT}
# Files whose predicted times are compared with the measured ones.
PREDICTED = (*SUITES, "ragged", "growth", "policies")
# The begin of a line that changes with the checkout, not with the rows.
SINCE = "Changed since, as of this page's writing: "


def since(files: dict[str, list[dict]]) -> str:
    present = present_trees()
    if present is None:
        return SINCE + "unknown, this is no git checkout.\n"
    changed = {}
    for name, rows in files.items():
        for kind, run in by(rows, kernels).items():
            if parts := tuple(changed_parts(run, present)):
                changed.setdefault(parts, []).append(f"`{name}`, {kind}")
    listed = "; ".join(f"{', '.join(parts)} (**{'; '.join(names)}**)" for parts, names in changed.items())
    return f"{SINCE}{listed or 'nothing'}. {ages(files)}\n"


def ages(files: dict[str, list[dict]]) -> str:
    """How many commits ago rows were measured, the oldest first."""
    names: dict[int, list[str]] = {}
    for name, rows in files.items():
        for kind, run in by(rows, kernels).items():
            found = [count for row in run if (count := commits_since(row["commit"])) is not None]
            if found:
                names.setdefault(max(found), []).append(f"`{name}`, {kind}")
    oldest_first = sorted(names.items(), reverse=True)
    return "Commits since then: " + "; ".join(f"{count} ({'; '.join(named)})" for count, named in oldest_first) + "."


# Lines in which scripts/gpu_test.sh and the test programs name a failure.
FAILED_STEP = re.compile(r"gpu_test: .* failed( with exit code \d+)?$|\[  FAILED  \] .*tests?, listed below:$")


def tests_line(path: pathlib.Path) -> str:
    if not path.exists():
        return "Tests and sanitizers: no run is filed."
    tests = json.loads(path.read_text())
    passed = next((line.split("]")[1].strip(" .") for line in tests["output"] if "PASSED" in line), "none")
    tools = [line for line in tests["output"] if "SUMMARY" in line]
    clean = sum(": 0 " in line for line in tools)
    sanitizers = f"of {len(tools)} sanitizers, {clean} found nothing" if tools else "no sanitizer ended on it"
    scaled = " with a share of the random cases" if "TEST_SCALE" in tests["command"] else ""
    failed = [line.removeprefix("gpu_test: ") for line in tests["output"] if FAILED_STEP.match(line)]
    failures = f" **{'; '.join(failed)}**: {(tests.get('remark') or 'not explained').rstrip('.')}." if failed else ""
    return f"Tests on commit {tests['commit'][:12]}{scaled}: {passed} passed; {sanitizers}.{failures}"


def plot_link(name: str) -> str:
    return str(PLOTS[name].path.relative_to(PAGE.parent))


def section(files: dict[str, list[dict]], name: str, title: str, words: str, content) -> str:
    """A section with a file's rows, by kind of kernels; empty where the file is missing."""
    if not files.get(name):
        return ""
    return f"\n## {title}\n{words}\n\n{gpu_tables.each_kernels(files[name], content)}"


def beside_flat(key: str):
    """A table by a field of the rows, then every case."""
    return lambda rows: f"{gpu_suite_tables.over_floor_and_flat(rows, key)}\n{gpu_suite_tables.each_beside_flat(rows)}"


def choices(files: dict[str, list[dict]]) -> str:
    """The sections of suites that set `auto` beside other policies."""
    ragged = section(
        files,
        "ragged",
        "Random forests",
        "Forests of 1 to 700 requests and 1 to 6 levels, lengths that end anywhere in a page, shuffled pages of 16 or\n"
        "32, 20 to 300 MB or so of distinct K and V; ragged#17 is of seed 17. `auto`, and `flat` in turn with it.",
        beside_flat("heads"),
    )
    growth = section(
        files,
        "growth",
        "Growth",
        "One factor at a time, the others fixed; 32/8 but for the group size, page 16. `auto`, and `flat` in turn.\n\n"
        f"![Time of auto and of flat, and the floor, against each factor]({plot_link('growth')})",
        beside_flat("factor"),
    )
    policies = section(
        files,
        "policies",
        "Policies, and what `auto` misses",
        "Every policy that packs on PAT's and FastTree's trees, 32/8, in turn. The best of a case is the fastest but\n"
        "`auto`, whose own mean is its regret. `trunk` has the plan of one of its heights.",
        gpu_suite_tables.regret,
    )
    return ragged + growth + policies


def comparisons(files: dict[str, list[dict]]) -> str:
    """The sections of files whose rows are compared with each other."""
    pat = [row for row in files.get("pat", []) if row["heads"] == "32/8"]
    f16 = files.get("pat", []) + files.get("flat", [])
    text = section(
        files,
        "ablation",
        "Ablations, 32/8",
        "On PAT's trees and FastTree's. The default is one persistent launch, `auto`, tiles by the selector. PAT here\n"
        "is `profit`, split above the mean, a stream for each tile; its section 8.5 changes one of these at a time.\n"
        "`PAT-fixed` is one tile of 64 x 64 here, and 64 x 128 in the paper: no kernel here has n = 128. Bubbles are\n"
        "the workers' time without a task between the first begin and the last end, in the mean.\n"
        f"{gpu_recorded.methods_over_papers(files.get('ablation', []))}".rstrip(),
        lambda rows: gpu_tables.ablation(rows, pat),
    )
    text += section(
        files, "merge", "Merging: by the last worker, or by a kernel of its own", "PAT's trees.", gpu_tables.merges
    )
    text += section(
        files,
        "equivalence",
        "Kernel equivalence",
        "PAT's figures 7c, 7d and 8: nothing shared, 1,024 tokens each, one request an item, every tile forced. PAT's\n"
        "tiles reach 83 to 86 % on an A100 and 92.3 to 94.2 % on an H100, and differ by less than 2 %.",
        gpu_tables.equivalence,
    )
    text += section(
        files,
        "pages",
        "What looking up pages costs",
        "The same tokens at each page size. A page that holds a whole node is looked up once.",
        gpu_tables.pages,
    )
    text += section(
        files, "bf16", "bf16", "Time over that of f16, 32/8.", lambda rows: gpu_tables.half_types(rows, f16)
    )
    text += section(
        files,
        "counters",
        "Bytes by the GPU's counters",
        "Nsight Compute, each kernel alone with cold caches; PAT's trees at 32/8 as in its figure 12b, then cases of\n"
        "the other suites.",
        lambda rows: gpu_tables.counted_policies(rows) + "\n" + gpu_tables.counted_cases(rows),
    )
    return text


COLD_CACHES = """Theirs and ours: copies of K and V, more than 400 MB together, take turns, so that those are cold while
page table, plan and Q are not; pages of a node are consecutive, but for `ragged`."""


def page() -> str:
    files = {name: rows for name in (*SUITES, *COMPARISONS) if (rows := load(name))}
    suites = {name: files[name] for name in SUITES if name in files}
    missing = [f"`{name}`" for name in (*SUITES, *COMPARISONS) if name not in files]
    first = next(iter(files.values()))[0]
    host = gpu_tables.host_times(files)
    text = f"""# Results on an H200

{first["gpu"]}, driver {first["driver"]}, clocks as found ({first["sm_clock"]}, {first["memory_clock"]} when idle);
fp16, head size 128. Every case was checked against plain attention in fp64 first. Times are of one layer on the GPU,
forward and merge, by replays of a captured graph between two events, median of 25; planning and resolve, once a step,
are apart. "forward" is from when the first task began to when the last one ended, without launch and merge.
{textwrap.fill(gpu_floors.sentence(), 118)}
[Recorded](../../recorded/h200.json) times are of published kernels on the same kind of GPU on another day: ratios to
them hold to some 3 % (a judgement: no kernel was timed on both days). {COLD_CACHES}
{gpu_recorded.how_timed(suites)}

This page is written by `bench/gpu_report.py` from the rows beside it, which come from `scripts/gpu_bench.sh`, or its
program by hand, by `bench/gpu_collect.py`; each names its command.
{gpu_tables.which_kernels(files)}
The kernels: [Hopper](../../../docs/deep/hopper_kernel.md), [portable](../../../docs/deep/portable_kernel.md). Words
are in the [glossary](../../../docs/concepts/glossary.md#words-of-the-measurements).
{tests_line(RESULTS / "tests.json")}

{gpu_tables.summary(suites)}
Not measured: {", ".join(missing) or "nothing"}.

{gpu_tables.losses(suites)}
"""
    if "pat" in suites:
        text += f"""![Time over the floor on PAT's trees, ours and each recorded kernel's]({plot_link("pat")})

Time over the floor on PAT's trees, by head set, as in PAT's figure 10. Lower is better; points that are not joined are
kernels that no paper on prefix sharing brought.

"""
    if host:
        text += f"## On the host, outside a graph\nOnce a plan, then once a layer.\n\n{host}\n"
    compared = suites | {name: files[name] for name in ("ragged",) if name in files}
    predicted = {name: rows for name, rows in files.items() if name in PREDICTED}
    text += f"""## What the cost model predicts
Predicted over measured time, case by case.

{gpu_suite_tables.cost_model(predicted)}
"""
    text += f"""## Recorded kernels
Geometric means over all heads of a suite; ours by the Hopper kernels. The paper's kernel is the one of the suite's
name, timed in its own way (above).

{gpu_recorded.each_recorded(suites)}
## Hopper's kernels over the portable ones
Time over the portable kernels', whose rows are older and of other machines.

{gpu_suite_tables.hopper_over_portable(compared)}
## Workers without a task
Share of the forward pass, in the mean of all workers; a single query has no tasks.

{gpu_suite_tables.idle_workers(compared)}
"""
    text += f"## The sources that were measured\n{gpu_tables.provenance(files)}\n{since(files)}"
    text += choices(files) + comparisons(files)
    for name, rows in suites.items():
        text += f"\n## Suite `{name}`: {SUITES[name]}\n{gpu_tables.each_kernels(rows, gpu_tables.cases)}"
    return text


def without_since(text: str) -> list[str]:
    return [part for part in text.split("\n\n") if not part.startswith(SINCE)]


def stale_plots() -> list[tuple[gpu_plot.Plot, list[dict]]]:
    """Plots that were not drawn of the rows that are here, with these."""
    found = [(plot, load(name)) for name, plot in PLOTS.items()]
    return [(plot, rows) for plot, rows in found if rows and not plot.is_current(rows)]


def check() -> None:
    if without_since(PAGE.read_text()) != without_since(pages.wrapped_page(page())):
        raise SystemExit(f"{PAGE.relative_to(pages.ROOT)} is not what the rows say; run python3 bench/gpu_report.py")


def main() -> None:
    if "--check" in sys.argv[1:]:
        check()
    else:
        pages.write_or_check(PAGE, page(), "gpu_report.py")
    gpu_plot.draw_or_check(stale_plots(), "gpu_report.py")


if __name__ == "__main__":
    main()
