"""Records the classes of an engine's release that a plug-in builds on: methods with their parameters, fields, members.

Sources are parsed and not imported, so neither torch nor a GPU is needed. vllm_signatures.py and sglang_signatures.py
say what is recorded of each engine.
"""

import ast
import json
import pathlib
import sys
from collections.abc import Mapping

ROOT = pathlib.Path(__file__).resolve().parent.parent
ALL: tuple[str, ...] = ()  # of a class: all names that it has
Recorded = Mapping[str, Mapping[str, tuple[str, ...]]]
Exported = Mapping[str, tuple[str, ...]]


def parameters(function: ast.FunctionDef) -> list[str]:
    """Names in order; *args and **kwargs with their stars, keyword-only names behind a lone star."""
    found = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
    if function.args.vararg is not None:
        found.append("*" + function.args.vararg.arg)
    elif function.args.kwonlyargs:
        found.append("*")
    found += [argument.arg for argument in function.args.kwonlyargs]
    if function.args.kwarg is not None:
        found.append("**" + function.args.kwarg.arg)
    return found


def assigned_to_self(function: ast.FunctionDef) -> set[str]:
    return {
        node.attr
        for node in ast.walk(function)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }


def class_entry(node: ast.ClassDef, names: tuple[str, ...]) -> dict[str, object]:
    """bases; fields: annotated names, True where they have a default; members: other assigned names; methods;
    attributes: what __init__ assigns to self."""
    fields, members, methods, attributes = {}, set(), {}, set()
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            fields[statement.target.id] = statement.value is not None
        elif isinstance(statement, ast.Assign):
            members |= {target.id for target in statement.targets if isinstance(target, ast.Name)}
        elif isinstance(statement, ast.FunctionDef):
            methods[statement.name] = parameters(statement)
            if statement.name == "__init__":
                attributes = assigned_to_self(statement)
    bases = [ast.unparse(base).split("[")[0] for base in node.bases]
    kept = {name for name in (*fields, *members, *methods, *attributes) if names == ALL or name in names}
    return {
        "bases": " ".join(bases),
        "fields": {name: has_default for name, has_default in fields.items() if name in kept},
        "members": " ".join(sorted(members & kept)),
        "methods": {name: " ".join(found) for name, found in methods.items() if name in kept},
        "attributes": " ".join(sorted(attributes & kept)),
    }


def source_of(folder: pathlib.Path, module: str) -> ast.Module | None:
    base = folder.joinpath(*module.split("."))
    for path in (base.with_suffix(".py"), base / "__init__.py"):
        if path.is_file():
            return ast.parse(path.read_text())
    return None


def names_in(tree: ast.Module) -> set[str]:
    """Names that a module's source has at any place: imported, assigned, defined, or in a string of exports."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.alias):
            found.add((node.asname or node.name).split(".")[0])
        elif isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
    return found


def record(folder: pathlib.Path, recorded: Recorded, exported: Exported) -> dict[str, object]:
    """recorded: classes and functions by module, and the names in a class that are recorded. exported: names that
    modules have at any place."""
    found: dict[str, object] = {}
    for module, names in recorded.items():
        tree = source_of(folder, module)
        for node in tree.body if tree is not None else ():
            if isinstance(node, ast.ClassDef) and node.name in names:
                found[f"{module}.{node.name}"] = class_entry(node, names[node.name])
            elif isinstance(node, ast.FunctionDef) and node.name in names:
                found[f"{module}.{node.name}"] = {"parameters": " ".join(parameters(node))}
    exports = {}
    for module, names in exported.items():
        tree = source_of(folder, module)
        present = names_in(tree) if tree is not None else set()
        exports[module] = [name for name in names if name in present]
    return {**found, "exports": exports}


def main(package: str, usage: str, recorded: Recorded, exported: Exported) -> None:
    """FOLDER VERSION: the folder that holds the package; writes tests/PACKAGE/signatures/VERSION.json."""
    if len(sys.argv) != 3:
        sys.exit(usage)
    folder, version = pathlib.Path(sys.argv[1]), sys.argv[2]
    if not (folder / package).is_dir():
        sys.exit(f"{folder} holds no folder {package}")
    path = ROOT / "tests" / package / "signatures" / f"{version}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(record(folder, recorded, exported), indent=1, sort_keys=True) + "\n")
