"""Recording rules of agents, evaluated over the files of a backtest by `plimsoll backfill`.

The rule engine is the agent's. Programs do not import each other, so it runs as a process of the same installation.
"""

import contextlib
import glob
import importlib.util
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from evaluator.tools.check import manifests
from lab.backtest.inputs.source import BacktestError
from plimsoll.files import userfile
from plimsoll.strictyaml import MalformedError

_AGENT = "agent"


@dataclass(frozen=True, slots=True)
class Rules:
    """Files of recording rules, and the series of theirs to use. They replace recorded series of the same name."""

    files: Sequence[str] = ()
    records: frozenset[str] = frozenset()

    @contextlib.contextmanager
    def evaluated(self, files: Sequence[str]) -> Iterator[IO[bytes]]:
        """Yield the results of the rules over OpenMetrics files, as OpenMetrics. Raises BacktestError."""
        if importlib.util.find_spec(_AGENT) is None:
            raise BacktestError(
                "recording rules need the agent, which is not installed here: run plimsoll backfill where it is, and pass "
                "its output to --openmetrics; or pip install 'kube-plimsoll[agent]'"
            )
        command = [
            *(sys.executable, "-P", "-m", _AGENT, "backfill"),
            *(f"--rules.file={glob.escape(file)}" for file in self.files),
            f"--metrics={','.join(sorted(self.records))}",
            *("--", *files),
        ]
        with tempfile.TemporaryFile() as errors:
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors) as process:  # noqa: S603
                assert process.stdout is not None
                try:
                    yield process.stdout
                except BaseException:
                    process.kill()
                    raise
            if process.returncode:
                errors.seek(0)
                why = errors.read().decode(errors="replace").strip().splitlines() or ["no reason"]
                raise BacktestError(f"recording rules: {why[-1].partition(': ')[2] or why[-1]}")


NO_RULES = Rules()


def named(patterns: Sequence[str], names: Collection[str]) -> Rules:
    """Return the rules of files that globs name. `names`: series that are of use. Raises BacktestError."""
    files: list[str] = []
    for pattern in patterns:
        matching = sorted(glob.glob(pattern))  # noqa: PTH207 (patterns may be absolute)
        if not matching:
            raise BacktestError(f"{pattern}: there is no such file of recording rules")
        files += matching
    records = frozenset[str]().union(*map(_recorded, files))
    if not records & frozenset(names):
        raise BacktestError(
            f"{', '.join(patterns)}: records {', '.join(sorted(records)) or 'nothing'}, which no policy names"
        )
    return Rules(files, records & frozenset(names))


def among(policies: Sequence[str], names: Collection[str]) -> Rules:
    """Return the rules in files and folders of policies that record one of some series; other files are ignored."""
    useful: dict[str, frozenset[str]] = {}
    for policy in policies:
        path = Path(policy)
        if policy != "-":
            own = manifests.files_in(policy) if path.is_dir() else [policy]
            useful.update((file, _useful(file, names)) for file in own)
    used = {file: records for file, records in useful.items() if records}
    return Rules([*used], frozenset[str]().union(*used.values()))


def _useful(file: str, names: Collection[str]) -> frozenset[str]:
    with contextlib.suppress(BacktestError):
        return _recorded(file) & frozenset(names)
    return frozenset()


def _recorded(file: str) -> frozenset[str]:
    try:
        text = userfile.read_text(file)
        return frozenset[str]().union(*map(manifests.recorded, manifests.objects(text)))
    except OSError as error:
        raise BacktestError(f"{file}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BacktestError(f"{file}: not a text file") from error
    except MalformedError as error:
        raise BacktestError(f"{file}: invalid YAML: {error}") from error
