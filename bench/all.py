"""Runs all benchmarks: prints each line, and writes all lines and a description of the machine to a file.

A failed benchmark is recorded in the file and sets the exit status; the others still run. A missed aim is not a failure.

    python -P bench/all.py [--only extender,streams] [--output bench/results/latest.json]
"""

import datetime
import importlib.metadata
import json
import os
import platform
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import commandline, measure

HERE = Path(__file__).parent
BENCHMARKS: Mapping[str, Sequence[str]] = {
    "decide": (),
    "stalls": (),
    "startup": (),
    "extender": (),
    "signals": (),
    "agent_idle": ("--seconds=60",),
    "scrape": (),
    "backtest": (),
    "aftermath": (),
}
"""Programs of this folder by name, with their arguments."""

_LIBRARIES = (
    "aiohttp",
    "grpcio",
    "httptools",
    "kubernetes",
    "msgspec",
    "numpy",
    "protobuf",
    "structlog",
)
_LONGEST = 420.0  # timeout of one benchmark in seconds
_LAST_LINES = 15

Line = dict[str, Any]


def command(name: str, arguments: Sequence[str]) -> list[str]:
    """Return the command line of a benchmark."""
    return [sys.executable, "-P", str(HERE / f"{name}.py"), *arguments]


def run(argv: Sequence[str], *, longest: float = _LONGEST) -> Line:
    """Run a benchmark and print its lines. Returns the lines and the duration, and `failed` with the reason if it failed."""
    begin, lines = time.monotonic(), list[Line]()
    with tempfile.TemporaryFile("w+") as errors:
        with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=errors, text=True) as process:
            guard = threading.Timer(longest, process.terminate)
            guard.start()
            try:
                failed = _read(process, lines)
            finally:
                guard.cancel()
                process.terminate()
        status = process.returncode
        seconds = round(time.monotonic() - begin, 1)
        if status and not failed:
            errors.seek(0)
            late = f" after {seconds} s" if seconds >= longest else ""
            failed = f"exit status {status}{late}: {_end(errors.read())}"
    failed = failed or ("" if lines else "no line")
    return {"seconds": seconds, "lines": lines} | ({"failed": failed} if failed else {})


def _read(process: "subprocess.Popen[str]", lines: list[Line]) -> str:
    """Read all lines. Returns the first error, or an empty string."""
    assert process.stdout is not None
    for text in process.stdout:
        try:
            line = json.loads(text)
            line = line if "met" in line else measure.judged(line, line.get("aim", ""))
        except (ValueError, KeyError) as error:
            return f"a line is not JSON or has an invalid aim: {error!r} in {text[:300]!r}"
        print(json.dumps(line), flush=True)
        lines.append(line)
    process.wait()  # it closes its output before it exits
    return ""


def _end(text: str) -> str:
    return "\n".join(text.splitlines()[-_LAST_LINES:])


def surroundings() -> Line:
    """Return a description of the machine."""
    return {
        "commit": _git("rev-parse", "HEAD") + ("-dirty" if _git("status", "--porcelain") else ""),
        "at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": {
            "cpu": _cpu_model(),
            "cores": os.cpu_count(),
            "memory_mb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e6),
            "kernel": platform.release().partition("-")[0],
            "load_before": os.getloadavg()[0],
        },
        "python": platform.python_version(),
        "openssl": ssl.OPENSSL_VERSION,
        "libraries": {name: importlib.metadata.version(name) for name in _LIBRARIES},
    }


def _git(*arguments: str) -> str:
    words = ["git", "-C", str(HERE), *arguments]
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()


def run_all(commands: Mapping[str, Sequence[str]], output: Path) -> int:
    """Run the benchmarks in this order and write the file. Returns the exit status, 1 if one failed."""
    result: Line = {**surroundings(), "benchmarks": {}}
    for name, argv in commands.items():
        found = run(argv)
        result["benchmarks"][name] = found
        if "failed" in found:
            print(f"{name} failed: {found['failed']}", file=sys.stderr, flush=True)
        result["machine"]["load_after"] = os.getloadavg()[0]
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(
            json.dumps(result, indent=1) + "\n"
        )  # after each benchmark, for interrupted runs
    ran = result["benchmarks"]
    missed = [line for one in ran.values() for line in one["lines"] if line.get("met") is False]
    failed = [name for name, one in ran.items() if "failed" in one]
    seconds = sum(one["seconds"] for one in ran.values())
    print(
        f"{len(ran)} benchmarks in {seconds:.0f} s, {len(failed)} failed, {len(missed)} aims missed: {output}",
        file=sys.stderr,
    )
    return 1 if failed else 0


def main(
    only: tuple[str, ...] = tuple(BENCHMARKS), output: Path = HERE / "results/latest.json"
) -> int:
    """Run these benchmarks. Returns the exit status, 1 if one failed. Raises SystemExit for an unknown name."""
    if unknown := set(only) - BENCHMARKS.keys():
        raise SystemExit(f"no benchmark called {', '.join(sorted(unknown))}")
    return run_all({name: command(name, BENCHMARKS[name]) for name in only}, output)


if __name__ == "__main__":
    sys.exit(main(**commandline.given(main)))
