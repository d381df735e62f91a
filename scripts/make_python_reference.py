#!/usr/bin/env python3
"""Writes api_python.md and engine_layer.md in docs/reference: signatures and docstrings of what the Python package, and
its engine layer, make public.

It reads them from the source.

    python3 scripts/make_python_reference.py            # writes them; needs griffelib (scripts/requirements-lint.txt)
    python3 scripts/make_python_reference.py --check    # fails when a page is not what the source says

Nothing is imported, so that no built package is needed. A public item without a docstring is an error.
"""

from __future__ import annotations

import pathlib
import re
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

try:
    import griffe
except ModuleNotFoundError:
    sys.exit("make_python_reference: griffelib is missing; make lint installs it for .venv/bin/python")

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs/reference"
# Parts of a page: a title, and the module whose public names it has, in the order of its source.
PARTS = {
    "One call": "simple",
    "Serving": "decode",
    "Tables on a GPU": "_device_tables",
    "Plans made on a GPU": "_device_planning",
    "Batches that live across steps": "live",
    "Tree decoding": "runtime.generator",
    "Sequence trees": "runtime.tree",
    "Models": "runtime.session",
    "Controllers": "runtime.controllers",
    "Beam search": "runtime.beam_search",
    "Samples": "runtime.samples",
    "Thoughts": "runtime.thoughts",
    "Monte Carlo": "runtime.mcts",
    "Speculation": "runtime.speculation",
    "KV caches": "runtime.kv_cache",
    "Plans, and what they share": "plans",
    "Machines": "machine",
    "Merging": "merging",
    "Errors": "errors",
    "torch operators": "integrations.torch",
    "Transformers' models": "integrations.transformers.tree_model",
    "Transformers' continuous batching": "integrations.transformers.batches",
    "FlashInfer's wrappers": "integrations.flashinfer",
    "FlashInfer's decode wrapper": "integrations.flashinfer.decode",
    "FlashInfer's cascade wrapper": "integrations.flashinfer.cascade",
    "FlashInfer's merges": "integrations.flashinfer.merging",
}
ENGINE_PARTS = {
    "What layers use": "integrations.engine.capability",
    "Steps": "integrations.engine.steps",
    "Making steps": "integrations.engine.making",
    "Decode rows": "integrations.engine.rows",
    "Page tables": "integrations.engine.tables",
    "Copies of page tables": "integrations.engine.snapshot",
    "Arrays": "integrations.engine.arrays",
    "Switches": "integrations.engine.settings",
    "The gain rule": "integrations.engine.gain_switch",
    "Steps with prefill rows": "integrations.engine.beside_prefill",
    "Counters": "integrations.engine.counters",
    "Shadow mode": "integrations.engine.shadow",
    "Registration": "integrations.engine.registration",
    "Releases": "integrations.engine.releases",
}
WITHOUT_WORDS = {"close"}  # the name says it
# Without a docstring, as the base has them: of a BranchController, and of Arrays.
OVERRIDES = {"begin", "decide", "results", "run"} | {"empty", "zeros", "float32", "copy", "rows_of", "address"}
MADE_BY_OTHERS = {"Explanation", "Plan", "Profile", "Shadow"}  # their constructors are not for users
FIELDS_ALONE = {"CsrTables", "DenseTables", "TokenTables"}  # their methods are for the engine layer
NAMES = {"capability"}  # modules whose strings are public, too
INTRODUCTION = (
    "Signatures and docstrings of the package; `scripts/make_python_reference.py` writes this page. "
    "[From Python](../guides/python.md) is the tour. B: requests, T: query tokens, P: tokens of a page, Hq and Hkv: "
    "query and KV heads, d: head size."
)
ENGINE_INTRODUCTION = (
    "Signatures and docstrings of `trunkline.integrations.engine`, on which adapters of serving engines stand; "
    "`scripts/make_python_reference.py` writes this page. [Adding an engine](../guides/engines.md) writes an adapter, "
    "[the engine layer](../guides/engine_layer.md) is the guide. B: requests, T: query tokens, P: tokens of a page, W: "
    "pages of a row, Hq and Hkv: query and KV heads, d: head size."
)


@dataclass(frozen=True)
class Page:
    """package: the module whose exports the page must have, all of them."""

    name: str
    title: str
    introduction: str
    package: str
    parts: dict[str, str]


PAGES = (
    Page("api_python.md", "Python reference", INTRODUCTION, "trunkline", PARTS),
    Page(
        "engine_layer.md",
        "Python reference of the engine layer",
        ENGINE_INTRODUCTION,
        "trunkline.integrations.engine",
        ENGINE_PARTS,
    ),
)


def quoted(value: object) -> str:
    """As the package writes strings."""
    return str(value).replace("'", '"')


def parameters_of(function: griffe.Function) -> Iterator[griffe.Parameter]:
    """The parameters, with the options in place of `**options: Unpack[StepArguments]`: see _step_options.py."""
    for parameter in function.parameters:
        if str(parameter.annotation) != "Unpack[StepArguments]":
            yield parameter
            continue
        options = function.modules_collection["trunkline._step_options.StepOptions"]
        for option in public(options):
            if option.is_attribute:
                yield griffe.Parameter(
                    option.name,
                    annotation=option.annotation,
                    kind=griffe.ParameterKind.keyword_only,
                    default=option.value,
                )


def signature(function: griffe.Function, name: str) -> str:
    """As it would be written, one parameter a line where it is long."""
    words, starred = [], False
    for parameter in parameters_of(function):
        if parameter.name in ("self", "cls"):
            continue
        text = parameter.name
        if parameter.kind is griffe.ParameterKind.var_positional:
            text, starred = f"*{text}", True
        elif parameter.kind is griffe.ParameterKind.var_keyword:
            text = f"**{text}"
        elif parameter.kind is griffe.ParameterKind.keyword_only and not starred:
            words.append("*")
            starred = True
        if parameter.annotation is not None:
            text += f": {parameter.annotation}"
        if parameter.default is not None and not text.startswith("*"):
            default = quoted(parameter.default)
            text += f" = {default}" if parameter.annotation is not None else f"={default}"
        words.append(text)
    returns = f" -> {function.returns}" if function.returns is not None and name[0].islower() else ""
    line = f"{name}({', '.join(words)}){returns}"
    if len(line) <= 110:
        return line
    return f"{name}(\n" + "".join(f"    {word},\n" for word in words) + f"){returns}"


def rendered(docstring: str, parameters: list[str]) -> str:
    """Markdown of a docstring: examples in fences, and a list where a sentence begins with a parameter's name."""
    parts = []
    for paragraph in re.split(r"\n\s*\n", docstring.strip("\n")):
        if paragraph.lstrip().startswith(">>>"):
            parts.append(f"```python\n{paragraph}\n```")
        elif paragraph.startswith("    "):
            parts.append(f"```python\n{re.sub('^    ', '', paragraph, flags=re.MULTILINE)}\n```")
        else:
            parts.append("\n".join(listed(paragraph.splitlines(), parameters)))
    return "\n\n".join(parts)


def listed(lines: list[str], parameters: list[str]) -> Iterator[str]:
    inside = False
    ended = True  # the sentence before
    for line in lines:
        name = re.match(r"\**(\w+)", line)
        begins = (
            ended
            and name is not None
            and name[1] in parameters
            and line[name.end() : name.end() + 1] in (":", ",", " ")
        )
        inside = inside or begins
        yield f"- {line}" if begins else f"  {line}" if inside and not line.startswith("- ") else line
        ended = line.rstrip().endswith((".", ";"))


def words_of(item: griffe.Object, parameters: list[str]) -> str:
    if item.docstring is not None:
        return rendered(item.docstring.value, parameters) + "\n"
    if item.name in WITHOUT_WORDS:
        return ""
    raise SystemExit(f"{item.path} has no docstring; the reference needs one")


def names_of(function: griffe.Function) -> list[str]:
    return [parameter.name for parameter in parameters_of(function)]


def fenced(code: str) -> str:
    return f"```python\n{code}\n```\n"


def public(item: griffe.Object) -> Iterator[griffe.Object]:
    """Members in the order of the source."""
    for member in item.members.values():
        if not member.is_alias and not member.name.startswith("_"):
            yield member


def fields_of(kind: griffe.Class) -> str:
    """Of a dataclass or a named tuple, as its source has them."""
    lines = []
    for member in public(kind):
        if member.is_attribute and "property" not in member.labels and member.annotation is not None:
            default = f" = {quoted(member.value)}" if member.value is not None else ""
            lines.append(f"    {member.name}: {member.annotation}{default}")
    return "\n".join([f"class {kind.name}:", *lines])


def function_text(function: griffe.Function, level: str, owner: str = "") -> str:
    made = "classmethod " if "classmethod" in function.labels else ""
    code = fenced(made + signature(function, function.name))
    return f"{level} {owner}{function.name}\n{code}{words_of(function, names_of(function))}"


def class_text(kind: griffe.Class) -> str:
    bases = ", ".join(str(base) for base in kind.bases)
    record = "dataclass" in kind.labels or bases == "NamedTuple"
    init = kind.members.get("__init__")
    parts = [f"### {kind.name}\n"]
    names: list[str] = []
    if record:
        parts.append(fenced(fields_of(kind)))
        names = [member.name for member in public(kind)]
    elif init is not None and kind.name not in MADE_BY_OTHERS:
        parts.append(fenced(signature(init, kind.name)))
        names = names_of(init)
    parts.append(words_of(kind, names))
    if kind.name in FIELDS_ALONE:
        return "".join(parts)
    for member in public(kind):
        if member.is_function and (member.docstring is not None or member.name not in OVERRIDES):
            parts.append("\n" + function_text(member, "####", f"{kind.name}."))
        elif "property" in member.labels:
            parts.append(f"\n#### {kind.name}.{member.name}\n")
            parts.append(fenced(f"property {member.name}: {member.annotation}"))
            parts.append(words_of(member, []))
    return "".join(parts)


def errors_text(module: griffe.Module) -> str:
    """A table, as they have neither members nor arguments."""
    lines = ["| exception | is a | |", "|---|---|---|"]
    for kind in public(module):
        bases = ", ".join(str(base) for base in kind.bases)
        lines.append(f"| `{kind.name}` | {bases} | {' '.join(words_of(kind, []).split())} |")
    return "\n".join(lines) + "\n"


def strings_of(module: griffe.Module) -> str:
    """The module's strings by name."""
    strings = [member for member in public(module) if member.is_attribute and str(member.value)[:1] in "'\""]
    return fenced("\n".join(f"{member.name} = {quoted(member.value)}" for member in strings))


def part_text(title: str, module: griffe.Module, exported: set[str]) -> str:
    parts = [f"## {title}\n"]
    if module.path.startswith("trunkline.integrations"):
        parts.append(f"`{module.path}`\n\n{rendered(module.docstring.value, [])}\n")
    if module.name in NAMES:
        parts.append(strings_of(module))
    if module.name == "errors":
        return "\n".join([*parts, errors_text(module)])
    for member in public(module):
        if member.name not in exported:
            continue
        if member.is_class:
            parts.append(class_text(member))
        elif member.is_function:
            parts.append(function_text(member, "###"))
        elif isinstance(member.value, griffe.ExprDict):
            parts.append(
                f"### {member.name}\nA dictionary, of {', '.join(quoted(key) for key in member.value.keys)}.\n"
            )
        else:
            parts.append(f"### {member.name}\n{fenced(f'{member.name} = {member.value}')}")
    return "\n".join(parts)


def page_text(package: griffe.Module, page: Page) -> str:
    owner = package if page.package == package.path else package[page.package.removeprefix("trunkline.")]
    exported = {str(name).strip("'\"") for name in owner.exports or []}
    introduction = textwrap.fill(page.introduction, 118, break_long_words=False, break_on_hyphens=False)
    text = [f"# {page.title}\n\n{introduction}\n"]
    for title, path in page.parts.items():
        module = package[path]
        # Of an integration that no page is about, all that is public.
        whole = path.startswith("integrations.") and owner is package
        names = {member.name for member in public(module) if member.is_class or member.is_function}
        text.append(part_text(title, module, names if whole else exported))
    made = "\n".join(text)
    missing = [name for name in sorted(exported) if f"### {name}\n" not in made and f"| `{name}` |" not in made]
    if missing:
        raise SystemExit(
            f"{', '.join(missing)}: public, but of no module of {page.name} in {pathlib.Path(__file__).name}"
        )
    return made


def main() -> None:
    package = griffe.load("trunkline", search_paths=[ROOT / "python"], allow_inspection=False)
    for page in PAGES:
        text, path = page_text(package, page), FOLDER / page.name
        if "--check" not in sys.argv[1:]:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            raise SystemExit(f"{path.name} is not what the source says; run python3 scripts/make_python_reference.py")


if __name__ == "__main__":
    main()
