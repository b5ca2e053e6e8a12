"""Configurations of node-problem-detector's system log monitors (JSON), as its 0.8.19 reads them.

Format: docs of node-problem-detector, config/*.json and pkg/systemlogmonitor (Apache-2.0). Fields that it does not know are
ignored, as there.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from collectors.shared.problems import gotime
from collectors.shared.problems.matching import Rule, compile_pattern
from plimsoll import durations
from plimsoll.re2 import PatternError
from plimsoll.text import SentenceError, shown

LARGEST = 1 << 20
"""Bytes of a configuration."""
_MOST_RULES, _MOST_LINES = 500, 100
_CONDITION = re.compile(r"(?:[a-z0-9.-]{1,253}/)?[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_REASON = re.compile(r"[A-Za-z](?:[A-Za-z0-9_,:]{0,126}[A-Za-z0-9_])?")
_CUSTOM = (
    "runs programs, which the agent does not: run the program by a timer of the host or a DaemonSet, and let it write a *.prom file "
    "for --collector.textfile.directory, such as `node_ntp_problem 1`, which policies can name"
)
_PLUGINS = ("kmsg", "filelog", "journald")


class MonitorError(SentenceError):
    """A configuration that cannot be used, and what to do about it."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A node condition, and what it has while there is no problem."""

    type: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Monitor:
    """What one configuration says."""

    name: str
    """The file's name."""
    plugin: str
    log_path: str
    lookback: float
    """Seconds before the start of which lines count."""
    delay: float
    """Seconds after boot in which lines do not count."""
    lines: int
    """Lines that a pattern may span."""
    source: str
    metrics: bool
    conditions: tuple[Condition, ...]
    rules: tuple[Rule, ...]
    plugin_config: Mapping[str, str]
    skip: tuple[str, ...]
    """Lines that contain one of these do not count."""


def parse(text: str, name: str) -> Monitor:
    """Parse a configuration; `name` is the file's, for messages. Raises MonitorError."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MonitorError(f"{name}: not JSON: {error}") from error
    fields = _Fields(document, name)
    plugin = fields.text("plugin")
    if plugin == "custom":
        raise MonitorError(
            f"{name}: a monitor with the plugin `custom` {_CUSTOM} (docs/node-problem-detector.md)"
        )
    if not plugin:
        raise MonitorError(
            f"{name}: `plugin` is missing, so this is no monitor of a log. Of a system-stats-monitor, leave the file out: the agent's "
            "collectors have its metrics (docs/node-problem-detector.md)"
        )
    if plugin not in _PLUGINS:
        raise MonitorError(f"{name}: plugin {shown(plugin)} is none of {', '.join(_PLUGINS)}")
    conditions = tuple(_condition(_Fields(entry, f"{name}: conditions[{number}]")) for number, entry in enumerate(fields.list("conditions")))  # fmt: skip
    types = {condition.type for condition in conditions}
    rules = tuple(_rule(_Fields(entry, f"{name}: rules[{number}]"), types) for number, entry in enumerate(fields.list("rules")))  # fmt: skip
    if len(rules) > _MOST_RULES:
        raise MonitorError(f"{name}: {len(rules)} rules; at most {_MOST_RULES}")
    monitor = Monitor(
        name=name,
        plugin=plugin,
        log_path=fields.text("logPath"),
        lookback=fields.seconds("lookback"),
        delay=fields.seconds("delay"),
        lines=fields.number("bufferSize", 10, _MOST_LINES),
        source=fields.text("source") or name,
        metrics=fields.boolean("metricsReporting", default=True),
        conditions=conditions,
        rules=rules,
        plugin_config={key: str(value) for key, value in fields.mapping("pluginConfig").items()},
        skip=tuple(map(str, fields.list("skipList"))),
    )
    _check_plugin(monitor)
    return monitor


def _condition(fields: "_Fields") -> Condition:
    kind = fields.matching("type", _CONDITION)
    return Condition(kind, fields.matching("reason", _REASON), fields.text("message"))


def _rule(fields: "_Fields", types: set[str]) -> Rule:
    kind, condition = fields.text("type"), fields.text("condition")
    if kind not in {"temporary", "permanent"}:
        raise fields.error("type", kind, "neither temporary nor permanent")
    if kind == "permanent" and condition not in types:
        raise fields.error("condition", condition, "not a type of `conditions`")
    pattern = fields.text("pattern")
    try:
        compile_pattern(pattern)
    except PatternError as error:
        raise MonitorError(f"{fields.place}: pattern: {error}") from error
    reason = fields.matching("reason", _REASON)
    return Rule(
        reason,
        pattern,
        condition if kind == "permanent" else "",
        fields.text("patternGeneratedMessageSuffix"),
    )


def _check_plugin(monitor: Monitor) -> None:
    config, name = monitor.plugin_config, monitor.name
    if monitor.plugin == "journald" and not config.get("source"):
        raise MonitorError(f"{name}: pluginConfig.source is missing: the syslog identifier to read")
    if monitor.plugin != "filelog":
        return
    if not monitor.log_path.startswith("/"):
        raise MonitorError(f"{name}: logPath {shown(monitor.log_path)} is not an absolute path")
    for key in ("timestamp", "message", "timestampFormat"):
        if not config.get(key):
            raise MonitorError(f"{name}: pluginConfig.{key} is missing")
    try:
        for key in ("timestamp", "message"):
            compile_pattern(config[key])
        gotime.Layout(config["timestampFormat"])
    except (PatternError, gotime.LayoutError) as error:
        raise MonitorError(f"{name}: pluginConfig: {error}") from error


class _Fields:
    """The fields of an object, checked."""

    def __init__(self, document: object, place: str) -> None:
        if not isinstance(document, dict):
            raise MonitorError(f"{place}: {shown(document)} is not an object")
        self._document: dict[str, Any] = document
        self.place = place

    def error(self, key: str, value: object, problem: str) -> MonitorError:
        return MonitorError(f"{self.place}: {key} {shown(value)} is {problem}")

    def _get(self, key: str, kind: type[Any], default: Any, words: str) -> Any:
        value = self._document.get(key)
        if value is None:
            return default
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise self.error(key, value, f"not {words}")
        return value

    def text(self, key: str) -> str:
        return str(self._get(key, str, "", "a string"))

    def matching(self, key: str, pattern: re.Pattern[str]) -> str:
        text = self.text(key)
        if pattern.fullmatch(text) is None:
            raise self.error(key, text, "not valid in Kubernetes; write it like KernelDeadlock")
        return text

    def list(self, key: str) -> list[Any]:
        return list(self._get(key, list, (), "a list"))

    def mapping(self, key: str) -> dict[str, Any]:
        return dict(self._get(key, dict, {}, "an object"))

    def boolean(self, key: str, *, default: bool) -> bool:
        return bool(self._get(key, bool, default, "true or false"))

    def number(self, key: str, default: int, most: int) -> int:
        value = int(self._get(key, int, 0, "a number")) or default
        if not 1 <= value <= most:
            raise self.error(key, value, f"not from 1 to {most}")
        return value

    def seconds(self, key: str) -> float:
        text = self.text(key)
        try:
            return durations.duration(text) if text else 0.0
        except ValueError as error:
            raise MonitorError(f"{self.place}: {key}: {error}") from error
