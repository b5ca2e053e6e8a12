"""The file that maps metric names to PromQL: YAML (or JSON), read again when it changes."""

import os
from collections.abc import Mapping
from pathlib import Path

from plimsoll import logs, strictyaml
from plimsoll.text import one_line, shown

log = logs.get(__name__)


class QueriesError(Exception):
    """A mapping file that cannot be used; the text names it and says why."""


def parse(text: str) -> dict[str, str]:
    """Metric name → query. Raises ValueError with a sentence."""
    try:
        found = strictyaml.load(text)
    except strictyaml.MalformedError as error:
        raise ValueError(f"not YAML: {error}") from error
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise ValueError("not a mapping of metric names to queries")
    for metric, query in found.items():
        if not isinstance(metric, str) or not metric:
            raise ValueError(f"not a metric name: {shown(metric)}")
        if not isinstance(query, str) or not query.strip():
            raise ValueError(one_line(f"{metric}: its query is not a text"))
    return found


class Queries:
    """The mapping as the file has it now. A change that cannot be understood is logged, and the last good one stays."""

    def __init__(self, path: str) -> None:
        """Without a path there are no queries. Raises QueriesError."""
        self._path = Path(path) if path else None
        self._known: Mapping[str, str] = {}
        self._seen: tuple[int, ...] | None = None
        if self._path is not None:
            try:
                self._known, self._seen = self._read(self._path)
            except (OSError, ValueError) as error:
                raise QueriesError(f"--prometheusQueries {path}: {error}") from error

    def of(self, metric: str) -> str | None:
        """The query for a metric, if the file has one."""
        if self._path is not None:
            self._look(self._path)
        return self._known.get(metric)

    def _look(self, path: Path) -> None:
        try:
            seen = _identity(path.stat())
        except OSError:
            seen = None
        if seen == self._seen:
            return
        self._seen = seen
        try:
            self._known, self._seen = self._read(path)
        except (OSError, ValueError) as error:
            log.warning("queries kept as they were", file=str(path), error=str(error))
        else:
            log.info("queries read again", file=str(path), queries=len(self._known))

    @staticmethod
    def _read(path: Path) -> tuple[Mapping[str, str], tuple[int, ...]]:
        with path.open(encoding="utf-8") as file:
            return parse(file.read()), _identity(os.fstat(file.fileno()))


def _identity(stat: os.stat_result) -> tuple[int, ...]:
    return (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns)
