"""Checks that a feature of the evaluator can be deleted with its folder, its tests and its line in the list.

A test of the core imports no feature, a test in tests/evaluator/features/X imports X alone, and a test that imports
several is in tests/together; a test of another suite imports one at most. Imports of helpers count, and the conftest.py
above a test. A test that needs a feature without importing it is marked `features("X")`: without X it is skipped.

Run by `make check`. With the name of a feature, prints the files that are deleted with it:

    python -P checks/features.py gangs
"""

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

FEATURES = Path("evaluator/features")
_MARKED = re.compile(r"\bmark\.features\(([^)]*)\)")
FOLLOWED = ("tests", "bench", "lab")
"""What these packages import counts as imported by the test."""
_PREFIX = "evaluator.features."
_BLOCKS = (ast.stmt, ast.excepthandler, ast.match_case)


def main(root: Path = Path(), feature: str = "") -> int:
    """Return 1 and print what is wrong below `root`, else 0. With a feature, print what is deleted with it."""
    if feature:
        print(*deleted_with(root, feature), sep="\n")
        return 0
    findings = [*misplaced(root), *left_over(root)]
    for finding in findings:
        print(finding)
    return bool(findings)


def deleted_with(root: Path, feature: str) -> Iterator[Path]:
    """Yield the folders of a feature, and the files elsewhere that import it."""
    own = "tests" / FEATURES / feature
    yield from (FEATURES / feature, own)
    for path in files(root, "lab", "tests"):
        if feature in needs(root, path) and own not in path.parents:
            yield path


def misplaced(root: Path) -> Iterator[str]:
    """Yield the files that import a feature which they may not, where they are."""
    for path in files(root, "tests"):
        found = needs(root, path)
        for name in sorted(found.keys() - _allowed(path, {*found})):
            through = "" if found[name] == path else f" through {found[name]}"
            yield f"{path} may not import the feature {name}{through}: checks/features.py has the rule"


def left_over(root: Path) -> Iterator[str]:
    """Yield the files that import, and the marks that name, a feature which is not there."""
    known = {path.parent.name for path in (root / FEATURES).glob("*/feature.py")}
    for path in files(root, "tests"):
        for name in sorted({*needs(root, path), *_marked(root / path)} - known):
            yield f"{path} needs the feature {name}, which is not there: delete it"


def _marked(path: Path) -> list[str]:
    """Return the features that marks in a file name."""
    return re.findall(r"\w+", " ".join(_MARKED.findall(path.read_text())))


def files(root: Path, *packages: str) -> list[Path]:
    """Return the modules of packages, relative to the root."""
    found = (path for package in packages for path in (root / package).rglob("*.py"))
    return sorted(path.relative_to(root) for path in found)


def needs(root: Path, path: Path) -> dict[str, Path]:
    """Return the features that a file imports, each with the file that names it."""
    found: dict[str, Path] = {}
    seen, waiting = {path}, [path]
    for one in waiting:
        for name in _imports(root / one):
            if name.startswith(_PREFIX) and (feature := name.split(".")[2]) != "registry":
                found.setdefault(feature, one)
        waiting += [other for other in _helpers(root, one) if other not in seen]
        seen.update(waiting)
    return found


@cache
def _helpers(root: Path, path: Path) -> tuple[Path, ...]:
    """Return the files of these packages that a file imports, and the conftest.py that pytest loads for it."""
    modules = [Path(*name.split(".")).with_suffix(".py") for name in _imports(root / path)]
    files = [one if one.parts[0] in FOLLOWED else path.parent / one for one in modules]
    if path.parts[0] == "tests":
        files += [folder / "conftest.py" for folder in path.parents[:-1]]
    return tuple(one for one in files if (root / one).is_file())


def _allowed(path: Path, needed: set[str]) -> set[str]:
    """Return the features that a file may import, of those that it does."""
    match path.parts:
        case ("tests", "evaluator", "features", feature, _, *_):
            return {feature}
        case ("tests", "evaluator", *_) | ("tests", _):
            return set()
        case ("tests", "together", *_):
            return needed
        case _:
            return needed if len(needed) == 1 else set()


@cache
def _imports(path: Path) -> frozenset[str]:
    """Return what may be modules in the imports of a file, in functions too."""
    found: set[str] = set()
    waiting: list[ast.AST] = [ast.parse(path.read_text())]
    for node in waiting:
        waiting += (one for one in ast.iter_child_nodes(node) if isinstance(one, _BLOCKS))
        if isinstance(node, ast.Import):
            found.update(one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.update((node.module, *(f"{node.module}.{one.name}" for one in node.names)))
    return frozenset(found)


if __name__ == "__main__":
    sys.exit(main(feature="".join(sys.argv[1:2])))
