"""The results of tests/cluster on real API servers, by version: recorded as JSON, shown in compatibility.md."""

import json
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "compatibility"
_FAILED = ("failed", "error")


def version_of(apiserver: str) -> str:
    """Return the version of a kube-apiserver binary, such as v1.36.3."""
    done = subprocess.run([apiserver, "--version"], capture_output=True, text=True, check=True)  # noqa: S603
    return done.stdout.split()[-1]


def record(version: str, outcomes: Iterable[tuple[str, str, str]], folder: Path = FOLDER) -> None:
    """Write the results of one version, in place of earlier ones of its minor version.

    `outcomes`: result (passed, failed, error, skipped), test, and reason to skip.
    """
    found = sorted(outcomes)
    minor = ".".join(version.removeprefix("v").split(".")[:2])
    results = {
        "version": version,
        "passed": sum(result == "passed" for result, _, _ in found),
        "failed": sorted(test for result, test, _ in found if result in _FAILED),
        "skipped": dict(
            sorted(
                Counter(
                    why.removeprefix("Skipped: ") for r, _, why in found if r == "skipped"
                ).items()
            )
        ),
    }
    folder.mkdir(exist_ok=True)
    (folder / f"{minor}.json").write_text(json.dumps(results, indent=2) + "\n")


def page(folder: Path = FOLDER) -> Iterator[str]:
    """Yield the lines of compatibility.md."""
    runs = [json.loads(file.read_text()) for file in folder.glob("*.json")]
    runs.sort(key=lambda run: _minor(run["version"]), reverse=True)
    yield from (
        "# Compatibility",
        "",
        "For administrators who choose a version of Kubernetes.",
        "",
        "Results of `tests/cluster` on real API servers. To add a version: `KUBEBUILDER_ASSETS=<folder with its",
        "binaries> pytest tests/cluster --record-compatibility`, then `make docs`.",
        "",
        "| Kubernetes | passed | failed | skipped |",
        "|---|---|---|---|",
    )
    for run in runs:
        skipped = sum(run["skipped"].values())
        yield f"| {run['version']} | {run['passed']} | {len(run['failed'])} | {skipped} |"
    for run in runs:
        if run["failed"] or run["skipped"]:
            yield from ("", f"## {run['version']}", "")
        yield from (f"- failed: `{test}`" for test in run["failed"])
        yield from (f"- skipped {number}: {why}" for why, number in run["skipped"].items())


def _minor(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.removeprefix("v").split(".")[:2])
