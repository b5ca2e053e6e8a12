"""Loads the file that maps metric names to PromQL: YAML or JSON, reloaded when it changes."""

import os
from collections.abc import Mapping
from pathlib import Path

from plimsoll import logs, strictyaml
from plimsoll.text import one_line, shown

log = logs.get(__name__)


class QueriesError(Exception):
    """The mapping file is invalid; the message names it and the reason."""


def parse(text: str) -> dict[str, str]:
    """Return the queries by metric name. Raises ValueError."""
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
            raise ValueError(one_line(f"{metric}: its query is not a string"))
    return found


class Queries:
    """The current mapping. If a changed file is invalid, the error is logged and the previous mapping stays."""

    def __init__(self, path: str) -> None:
        """An empty path means no queries. Raises QueriesError."""
        self._path = Path(path) if path else None
        self._known: Mapping[str, str] = {}
        self._loaded: tuple[int, ...] | None = None
        if self._path is not None:
            try:
                self._known, self._loaded = self._read(self._path)
            except (OSError, ValueError) as error:
                raise QueriesError(f"--prometheusQueries {path}: {error}") from error

    def of(self, metric: str) -> str | None:
        """Return the query of a metric, or None."""
        if self._path is not None:
            self._reload_if_changed(self._path)
        return self._known.get(metric)

    def _reload_if_changed(self, path: Path) -> None:
        try:
            identity = _identity(path.stat())
        except OSError:
            identity = None
        if identity == self._loaded:
            return
        self._loaded = identity
        try:
            self._known, self._loaded = self._read(path)
        except (OSError, ValueError) as error:
            log.warning("queries not reloaded", file=str(path), error=str(error))
        else:
            log.info("queries reloaded", file=str(path), queries=len(self._known))

    @staticmethod
    def _read(path: Path) -> tuple[Mapping[str, str], tuple[int, ...]]:
        with path.open(encoding="utf-8") as file:
            return parse(file.read()), _identity(os.fstat(file.fileno()))


def _identity(stat: os.stat_result) -> tuple[int, ...]:
    return (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns)
