"""The table of signals for docs/architecture.md, and the page of walks: what leads to what in the code."""

import ast
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from evaluator.app import Service
from evaluator.config import Settings
from evaluator.core import signals
from evaluator.core.signals import Signal
from sandbox.pki import CertificateAuthority

ROOT = Path(__file__).resolve().parents[1]
_EVERYTHING: dict[str, Any] = {
    "unsafe": True,
    "evict": True,
    "nudge": True,
    "taints": True,
    "conditions": True,
    "problem_conditions": frozenset({"KernelDeadlock"}),
    "problem_events": True,
    "gangs": True,
    "scorers": ("safe", "pigeon", "congestion", "reward"),
    "custom_metrics_port": 6443,
    "lease_namespace": "plimsoll",
}
"""The flags with which every feature reacts."""


def table() -> Iterator[str]:
    """Yield the rows: a signal, when it is published, by which functions, and the reactions."""
    yield "| signal | published when | by | reactions |"
    yield "|---|---|---|---|"
    published, connected = publishers(), reactions()
    for signal in sorted(connected.keys() | published.keys(), key=_order):
        when = " ".join((signal.__doc__ or "").split()).partition(". ")[0].rstrip(".")
        by = ", ".join(f"`{name}`" for name in published.get(signal, ()))
        reacts = ", ".join(_marked(name) for name in dict.fromkeys(connected.get(signal, ())))
        yield f"| `{signal.__name__}` | {when} | {by} | {reacts} |"


def walks() -> Iterator[str]:
    """Yield the page of the walks in docs/walks.toml."""
    yield "# Five walks through the code"
    yield ""
    yield "For contributors."
    yield ""
    yield 'Each row leads to the next: by a call, or as its last column says. "keeps for": the next function reads what'
    yield "this one stores. A signal leads to one of its reactions in the [table of signals](architecture.md#signals)."
    for title, walk in tomllib.loads((ROOT / "docs/walks.toml").read_text()).items():
        yield from ("", f"## {title}", "", "| function | module | then |", "|---|---|---|")
        for function, module, then in walk["steps"]:
            shown = f"`{then}`" if then[:1].isupper() else then
            yield f"| `{function}` | `{module}` | {shown} |"


def _order(signal: type[Signal]) -> tuple[bool, int, str]:
    """Order the signals of the core as they are defined, those of features after them."""
    names = [*vars(signals)]
    of_core = signal.__module__ == signals.__name__
    return not of_core, names.index(signal.__name__) if of_core else 0, signal.__name__


def _marked(name: str) -> str:
    owner, _, function = name.partition(": ")
    return f"`{function}`" if owner == "core" else f"{owner} `{function}`"


def reactions() -> dict[type[Signal], list[str]]:
    """Return the names of the reactions to each signal in an evaluator with every feature on."""
    with tempfile.TemporaryDirectory() as folder:
        pair = CertificateAuthority(Path(folder)).issue("evaluator", san="DNS:evaluator")
        flags = {**_EVERYTHING, "cert": str(pair.cert), "key": str(pair.key)}
        service = Service(Settings(**flags), SimpleNamespace())  # type: ignore[arg-type]
    return service.core.signals.connected()


def publishers() -> dict[type[Signal], list[str]]:
    """Return the functions of the evaluator that publish each signal, found in its source."""
    known = {one.__name__: one for one in Signal.__subclasses__()}
    found: dict[type[Signal], list[str]] = {}
    for path in sorted((ROOT / "evaluator").rglob("*.py")):
        for name, function in _functions(ast.parse(path.read_text())):
            for published in filter(None, map(_published, ast.walk(function))):
                names = found.setdefault(known[published], [])
                if name not in names:
                    names.append(name)
    return found


def _published(node: ast.AST) -> str | None:
    """Return the name of the signal that a call publishes; None for any other node."""
    match node:
        case ast.Call(
            func=ast.Attribute(attr="publish" | "_publish" | "publish_in_steps"),
            args=[ast.Call(func=ast.Name(id=name))],
        ):
            return name
    return None


def _functions(module: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """Yield each method and function of a module with its qualified name."""
    for node in module.body:
        if isinstance(node, ast.ClassDef):
            for one in node.body:
                if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield f"{node.name}.{one.name}", one
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node
