"""The promises about security with the tests that hold them: docs/security.toml, shown in docs/security-tests.md."""

import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

FILE = Path(__file__).resolve().parent / "security.toml"
TITLES = {
    "identities": "Identities",
    "users": "Container users",
    "ports": "Ports",
    "agents": "Limits of the agents' port",
    "attacks": "Attacks without credentials",
    "texts": "Untrusted text",
    "secrets": "Secrets",
    "others": "Other promises",
}
Promise = Mapping[str, str | Sequence[str]]
Table = Callable[[Sequence[str], Iterable[Sequence[str]]], Iterator[str]]


def read() -> dict[str, list[Promise]]:
    """Return the promises of each table; `tests` are the paths of tests, other keys the columns."""
    return tomllib.loads(FILE.read_text())


def page(table: Table) -> Iterator[str]:
    """Yield the lines of docs/security-tests.md."""
    promises = read()
    yield "# Security promises and their tests"
    yield ""
    yield "For reviewers: what each identity can and cannot do, also if it is hostile, and the test that verifies it."
    yield ""
    yield "[SECURITY.md](../SECURITY.md) is the summary. `make attack` measures the floods on an idle machine."
    for name, title in TITLES.items():
        columns = [key for key in promises[name][0] if key != "tests"]
        rows = (
            [*(str(one[key]) for key in columns), ", ".join(f"`{test}`" for test in one["tests"])]
            for one in promises[name]
        )
        yield from ("", f"## {title}", "")
        yield from table((*columns, "tests"), rows)
