"""Finds exceptions kept in a local of the frame that raises or catches them.

An exception refers to its traceback, that to the frame, and the frame to its locals: a cycle that keeps everything the
frame refers to until a full garbage collection, which is rare in servers. Run by `make check`; prints one line per finding
and exits 1 if there is any.
"""

import ast
import sys
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

ALLOWED = {"agent/stream/client.py"}
"""Two tasks hold their exceptions anyway; a lost stream is followed by a pause of seconds."""

REFERENCES = {"__context__", "__cause__"}
"""Attributes of an exception that are exceptions."""

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


def main(root: Path = Path()) -> int:
    """Return 1 and print each exception that is kept below `root`, else 0."""
    findings = [finding for package in PACKAGES for finding in kept(root, package)]
    for finding in findings:
        print(finding)
    return bool(findings)


def kept(root: Path, package: str) -> Iterator[str]:
    """Yield the exceptions that functions of a package keep in locals."""
    for path in sorted((root / package).rglob("*.py")):
        if str(path.relative_to(root)) in ALLOWED:
            continue
        for function in ast.walk(ast.parse(path.read_text())):
            if isinstance(function, _Function):
                for line, what in _kept_in(function):
                    yield f"{path.relative_to(root)}:{line}: {what}"


def _kept_in(function: _Function) -> Iterator[tuple[int, str]]:
    nodes = [*_of(function)]
    caught = {node.name for node in nodes if isinstance(node, ast.ExceptHandler) and node.name}
    assigned = {
        target.id for node in nodes for target, _ in _assigned(node) if isinstance(target, ast.Name)
    }
    for node in nodes:
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Name):
            name = node.exc.id
            if name in assigned and name not in caught:
                yield (
                    node.lineno,
                    f"{name} is raised and stays in a local: raise it where it is made",
                )
        for target, value in _assigned(node):
            if isinstance(target, ast.Name) and _is_exception(value, caught):
                yield (
                    node.lineno,
                    f"{target.id} keeps an exception: keep its text or status instead",
                )


def _is_exception(value: ast.expr | None, caught: set[str]) -> bool:
    match value:
        case ast.Name(id=name):
            return name in caught
        case ast.Attribute(value=ast.Name(), attr=attribute):
            return attribute in REFERENCES
        case ast.IfExp(body=one, orelse=other):
            return _is_exception(one, caught) or _is_exception(other, caught)
        case ast.Tuple(elts=values) | ast.BoolOp(values=values):
            return any(_is_exception(each, caught) for each in values)
    return False


def _assigned(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    """Yield the targets of an assignment, each with its value."""
    match node:
        case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
            yield from zip(targets, values, strict=False)
        case ast.Assign(targets=targets, value=value):
            yield from ((target, value) for target in targets)
        case ast.AnnAssign(target=target, value=value) | ast.NamedExpr(target=target, value=value):
            yield target, value
        case ast.For(target=target) | ast.AsyncFor(target=target):
            yield target, None


def _of(function: _Function) -> Iterator[ast.AST]:
    """Yield the nodes of a function without those of functions inside it."""
    waiting = [*ast.iter_child_nodes(function)]
    while waiting:
        yield (node := waiting.pop())
        if not isinstance(node, _SCOPES):
            waiting += ast.iter_child_nodes(node)


if __name__ == "__main__":
    sys.exit(main())
