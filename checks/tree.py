"""Checks layout and names: docstrings of packages, the purity contract, and class names.

Run by `make check`; prints one line per finding and exits 1 if there is any. Reasons: docs/architecture.md.
"""

import ast
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

PACKAGES = (
    "agent",
    "collectors",
    "evaluator",
    "kubectl_plimsoll",
    "lab",
    "plimsoll",
    "sandbox",
    "wire",
)

PURITY_CONTRACT = "decisions do no I/O and read no clock"
MOST_PURE_ENTRIES = 40
"""Packages, and names of modules that are pure in every feature (`evaluator.features.*.plan`)."""

MOST_OWNERS = 3
"""Unrelated classes of one name."""
SHARED_NAMES = {"Options"}
"""A convention: a collector's flags."""


def main(root: Path = Path()) -> int:
    """Return 1 and print what is wrong with the tree below `root`, else 0."""
    findings = [*undocumented(root), *purity(root), *classes(root)]
    for finding in findings:
        print(finding)
    return bool(findings)


def undocumented(root: Path) -> Iterator[str]:
    """Yield the packages whose `__init__` has no docstring."""
    for package in PACKAGES:
        for folder in sorted({path.parent for path in _modules(root, package)}):
            init = folder / "__init__.py"
            if not init.exists() or not ast.get_docstring(ast.parse(init.read_text())):
                name = ".".join(folder.relative_to(root).parts)
                yield f"{name}: no docstring says what belongs there and what it may import"


def purity(root: Path) -> Iterator[str]:
    """Yield a finding if the purity contract lists modules one by one instead of packages."""
    config = tomllib.loads((root / "pyproject.toml").read_text())
    for contract in config["tool"]["importlinter"]["contracts"]:
        if contract["name"] == PURITY_CONTRACT:
            count = len(contract["source_modules"])
            if count > MOST_PURE_ENTRIES:
                yield f"pyproject.toml: {count} entries in {PURITY_CONTRACT!r}, at most {MOST_PURE_ENTRIES}"
            return
    yield f"pyproject.toml: no contract {PURITY_CONTRACT!r}"


def classes(root: Path) -> Iterator[str]:
    """Yield class names that too many modules define."""
    owners: dict[str, list[str]] = defaultdict(list)
    for package in PACKAGES:
        for path in _modules(root, package):
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ClassDef) and node.name not in SHARED_NAMES:
                    owners[node.name].append(str(path.relative_to(root)))
    for name, paths in sorted(owners.items()):
        if len(paths) > MOST_OWNERS:
            yield f"class {name} is defined {len(paths)} times: {', '.join(paths)}"


def _modules(root: Path, package: str) -> list[Path]:
    return [path for path in sorted((root / package).rglob("*.py")) if "_pb2" not in path.name]


if __name__ == "__main__":
    sys.exit(main())
