"""Findings of `check` and their two output formats: text and JSON."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field

from evaluator.tools.check.schema import KIND
from plimsoll.text import counted, one_line


@dataclass(slots=True)
class Findings:
    """Findings in one object, or in a file as a whole, which has no kind."""

    source: str
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    meanings: list[str] = field(default_factory=list)
    kind: str = ""
    namespace: str = ""
    name: str = ""

    @property
    def is_policy(self) -> bool:
        """Whether the object is a policy."""
        return self.kind == KIND

    def lines(self) -> Iterator[str]:
        """Yield the lines of the report."""
        yield one_line(self._title)
        yield from (f"  {line}" for line in self.meanings)
        yield from (f"  error: {one_line(line)}" for line in self.errors)
        yield from (f"  warning: {one_line(line)}" for line in self.warnings)

    @property
    def _title(self) -> str:
        if not self.kind:
            return self.source
        kind = "policy" if self.is_policy else self.kind
        if not self.name:
            return f"{self.source}: a {kind} without a name"
        where = f"{self.namespace}/" if self.namespace else ""
        return f"{self.source}: {kind} {where}{self.name}"


def as_text(found: Sequence[Findings]) -> str:
    """Return the report for people."""
    lines = [line for one in found for line in one.lines()]
    totals = _totals(found)
    parts = [counted(totals["policies"], "policy", "policies")]
    if totals["workloads"]:
        parts.append(counted(totals["workloads"], "workload"))
    parts += [counted(totals["errors"], "error"), counted(totals["warnings"], "warning")]
    return "".join(f"{line}\n" for line in [*lines, ", ".join(parts)])


def as_json(found: Sequence[Findings]) -> str:
    """Return the report as a JSON document."""
    return (
        json.dumps({**_totals(found), "findings": [asdict(one) for one in found]}, indent=2) + "\n"
    )


def _totals(found: Iterable[Findings]) -> dict[str, int]:
    found = list(found)
    return {
        "policies": sum(one.is_policy for one in found),
        "workloads": sum(bool(one.kind) and not one.is_policy for one in found),
        "errors": sum(len(one.errors) for one in found),
        "warnings": sum(len(one.warnings) for one in found),
    }
