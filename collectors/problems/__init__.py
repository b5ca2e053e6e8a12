"""Problems in the kernel's log and others, by configurations of node-problem-detector: metrics, conditions and events."""

import glob
import itertools
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from collectors.interface import host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import (
    CollectorError,
    Family,
    NodeEvent,
    PermanentProblem,
    SourceAbsentError,
)
from collectors.problems import xids
from collectors.problems.rest import Rest
from collectors.problems.sources import (
    FileSource,
    JournalSource,
    KernelSource,
    Line,
    Source,
    SourceError,
)
from collectors.problems.tracking import (
    ProblemTracker,
    Recovery,
    load_state,
    parse_recovery,
    save_state,
)
from collectors.shared import mounts
from collectors.shared.problems import monitors
from collectors.shared.problems.matching import LineMatcher
from collectors.shared.problems.monitors import Monitor, MonitorError
from plimsoll import logs
from plimsoll.flags import option
from plimsoll.kernellog.readers import KernelLogError, boot_id
from plimsoll.text import one_line

_LOGS = "logs of --problems.config"
METRICS = Table(
    # Not a counter, though node-problem-detector calls it one: OpenMetrics would append "_total" and break dashboards.
    Metric("problem_counter", "untyped", "Number of times a specific type of problem have occurred.", _LOGS, ("reason",), node_exporter=False),
    Metric("problem_gauge", "gauge", "Whether a specific type of problem is affecting the node or not.", _LOGS, ("type", "reason"), node_exporter=False),
    Metric("node_problem_<type>", "gauge", "Whether the node has the problem <type>, for policies.", _LOGS, node_exporter=False),
    Metric("node_problem_monitor_up", "gauge", "Whether the configuration of this file can be used and its log be read.", _LOGS, ("monitor",), node_exporter=False),
    Metric("node_problem_unparsed_lines_total", "counter", "Lines of a log file that do not fit the monitor's pluginConfig.", _LOGS, ("monitor",), node_exporter=False),
    Metric("node_gpu_xid_errors_total", "counter", "XID errors of a GPU, or SXid errors of an NVSwitch, in the kernel's log since boot, by code and what NVIDIA's catalogue says to do.", "/dev/kmsg or syslog(2)", ("pci_bus_id", "xid", "action"), node_exporter=False),
    Metric("node_gpu_xid_last_time_seconds", "gauge", "Unix time of the last XID error of a GPU in the kernel's log since boot, by code and action.", "/dev/kmsg or syslog(2)", ("pci_bus_id", "xid", "action"), "seconds", node_exporter=False),
    Metric("node_kernel_log_records_total", "counter", "Records of the kernel's log that were read.", "/dev/kmsg or syslog(2)", node_exporter=False),
    Metric("node_kernel_log_lost_records_total", "counter", "Records of the kernel's log that were overwritten before they were read; those lost in one go count once where only syslog(2) can be read.", "/dev/kmsg or syslog(2)", node_exporter=False),
)  # fmt: skip
_KERNEL = "kernel"
_WAIT, _IDLE, _RETRY = 1.0, 10.0, 5.0
"""Seconds to wait for lines: while a problem lasts, which may end meanwhile; otherwise; and after an error."""
_MOST_XIDS = 500
"""GPUs and codes that are counted."""
_CLOCKS = 1.0
"""Seconds by which the clocks of logs and boot may differ."""
_PATIENCE = 5.0
"""Seconds to wait at the end for a line that is being matched."""
_SAVE = 10.0
"""Seconds between two saves of positions alone."""

log = logs.get(__name__)


@dataclass(frozen=True, slots=True)
class Options:
    """The flags of this collector."""

    problems_config: tuple[str, ...] = option(
        "problems.config",
        (),
        "configuration of node-problem-detector's kmsg, filelog or journald monitors; a file or pattern (repeatable)",
        metavar="FILE",
    )
    problems_kernel_log: str = option(
        "problems.kernel-log",
        "",
        "where to read the kernel's log: unix:PATH of `plimsoll-agent kernel-log`, or a device or file; by default /dev/kmsg, or "
        "syslog(2) where it cannot be opened",
        metavar="SOURCE",
    )
    problems_state_file: str = option(
        "problems.state-file",
        "",
        "keeps positions in logs, counts and conditions over restarts of the agent; without it, each start reads `lookback` again",
        metavar="FILE",
    )
    problems_recovery: tuple[tuple[str, Recovery], ...] = option(
        "problems.recovery",
        (),
        "what ends a permanent problem: TYPE=state (ReadonlyFilesystem only, its default), TYPE=reboot (the default of others), or "
        "TYPE=DURATION without another line (repeatable)",
        metavar="TYPE=WAY",
        parse=parse_recovery,
    )


class _Read(NamedTuple):
    """A monitor and its patterns."""

    monitor: Monitor
    matcher: LineMatcher


class Problems:
    """The `problems` collector: a thread for each log reads it; `collect` returns the state."""

    def __init__(
        self,
        machine: host.Host,
        options: Options,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._machine = machine
        self._clock = clock
        self._options = options
        self._state = Path(options.problems_state_file) if options.problems_state_file else None
        self._lock = threading.Lock()
        self._started = False
        self._up: dict[str, bool] = {}
        self._unparsed: dict[str, int] = {}
        self._matching = threading.Lock()
        self._stopped = threading.Event()
        self._sources: dict[str, Source] = {}
        self._records = self._lost = 0
        self._tracker = ProblemTracker((), {})
        self._xids: dict[tuple[str, int], tuple[int, float]] = {}
        self._xid_changes = 0
        self._boot_id = ""
        self._saved: tuple[float, object, object] = 0.0, None, None

    def collect(self) -> Iterator[Family]:
        """Return counts and states; the first call starts to read."""
        if not self._options.problems_config:
            raise SourceAbsentError("no --problems.config")
        with self._lock:
            self._start()
            tracker = self._tracker
            counts = [((reason,), float(count)) for reason, count in tracker.counts.items()]
            states = [(c.type, c.reason if c.active else "") for c in tracker.conditions.values()]
            gauges = sorted(tracker.gauges)
            up = sorted(self._up.items())
            unparsed = sorted(self._unparsed.items())
            kernel = (self._records, self._lost) if _KERNEL in self._sources else None
            gpus = [
                ((pci, str(code), xids.action(code)), found)
                for (pci, code), found in sorted(self._xids.items())
            ]
        yield METRICS.family(
            "node_problem_monitor_up", [((name,), float(is_up)) for name, is_up in up]
        )
        if unparsed:
            rows = [((name,), float(number)) for name, number in unparsed]
            yield METRICS.family("node_problem_unparsed_lines_total", rows)
        if counts:
            yield METRICS.family("problem_counter", counts)
        if gauges:
            active = dict(states)
            yield METRICS.family("problem_gauge", [((kind, reason), float(active[kind] == reason)) for kind, reason in gauges])  # fmt: skip
        for kind, reason in states:
            yield METRICS.single(f"node_problem_{_metric(kind)}", float(bool(reason)))
        if gpus:
            yield METRICS.family(
                "node_gpu_xid_errors_total", [(key, float(n)) for key, (n, _) in gpus]
            )
            yield METRICS.family(
                "node_gpu_xid_last_time_seconds", [(key, at) for key, (_, at) in gpus]
            )
        if kernel is not None:
            yield METRICS.single("node_kernel_log_records_total", float(kernel[0]))
            yield METRICS.single("node_kernel_log_lost_records_total", float(kernel[1]))

    def fingerprint(self) -> Hashable:
        """Return a value that changes with the problems; None without configurations."""
        return (self._tracker.changes, self._xid_changes) if self._options.problems_config else None

    def conditions(self) -> Sequence[PermanentProblem]:
        """Return the conditions of all permanent problems. Any thread may call it."""
        with self._lock:
            return [PermanentProblem(c.type, c.active, c.reason, c.message, c.since) for c in self._tracker.conditions.values()]  # fmt: skip

    def events(self) -> Sequence[NodeEvent]:
        """Return the last event of each source and reason. Any thread may call it."""
        with self._lock:
            return [NodeEvent(*event) for event in self._tracker.events.values()]

    def acknowledge(self, times: Mapping[str, float]) -> None:
        """End problems, by condition type, that a person acknowledged at a time in Unix seconds. Any thread may call it."""
        with self._lock:
            ended = [kind for kind, at in times.items() if self._tracker.acknowledge(kind, at, time.time())]  # fmt: skip
        for kind in ended:
            log.info("problem acknowledged", condition=kind)
        if ended:
            self._save()

    def _start(self) -> None:
        if self._started:
            return
        try:
            self._boot_id = boot_id(self._machine.procfs)
        except KernelLogError as error:
            raise CollectorError(str(error)) from error
        self._started = True
        read = list(self._monitors())
        self._tracker = ProblemTracker(
            [r.monitor for r in read], dict(self._options.problems_recovery)
        )
        state = load_state(self._state, self._boot_id) if self._state else {}
        if state:
            try:
                self._tracker.load(state["tracker"])
                self._xids = {
                    (str(pci), int(code)): (int(n), float(at))
                    for pci, code, n, at in state.get("xids", ())
                }
            except (KeyError, TypeError, ValueError) as error:
                log.warning("problems of before the restart are discarded", reason=str(error))
        positions = state.get("positions", {}) if state else {}
        key = _log_of
        for name, found in itertools.groupby(sorted(read, key=key), key):
            group = list(found)
            self._sources[name] = source = self._source(group[0].monitor, positions.get(name))
            threading.Thread(
                target=self._work, args=(source, group), name=name, daemon=True
            ).start()

    def _monitors(self) -> Iterator[_Read]:
        for pattern in self._options.problems_config:
            paths = sorted(glob.glob(pattern)) if glob.has_magic(pattern) else [pattern]  # noqa: PTH207 (may be absolute)
            if not paths:
                log.error("no configuration of a monitor", pattern=pattern)
            for path in paths:
                name = Path(path).name
                self._up[name] = False
                try:
                    with Path(path).open("rb") as file:
                        text = file.read(monitors.LARGEST).decode("utf-8", "replace")
                    monitor = monitors.parse(text, name)
                except (OSError, MonitorError) as error:
                    log.error("configuration of a monitor not used", file=path, reason=str(error))
                    continue
                yield _Read(monitor, LineMatcher(monitor.rules, monitor.lines))

    def _source(self, monitor: Monitor, position: Any) -> Source:
        path = self._machine.rootfs / monitor.log_path.lstrip("/")
        if monitor.plugin == "kmsg":
            return KernelSource(self._options.problems_kernel_log, self._machine.procfs, position)
        if monitor.plugin == "filelog":
            return FileSource(path, monitor.plugin_config, position)
        return JournalSource(
            monitor.plugin_config["source"], path if monitor.log_path else None, position
        )

    def _work(self, source: Source, read: Sequence[_Read]) -> None:
        """Read one log, forever."""
        begin, error, told = time.time(), "", False
        rest = Rest(self._stopped.wait)
        while not self._stopped.is_set():
            try:
                found = source.read(_WAIT if self._active() else _IDLE)
            except SourceError as caught:
                if str(caught) != error:
                    error = str(caught)
                    log.error("log cannot be read", monitors=",".join(r.monitor.name for r in read), reason=error)  # fmt: skip
                self._mark(read, up=False)
                self._tick()
                self._stopped.wait(_RETRY)
                continue
            if error:
                log.info("log can be read again", monitors=",".join(r.monitor.name for r in read))
                error = ""
            if found.unparsed and not told:
                told = True
                log.warning("line of a log does not fit pluginConfig", monitors=",".join(r.monitor.name for r in read), line=one_line(found.odd, 400))  # fmt: skip
            self._mark(read, up=not isinstance(source, FileSource) or source.fits)
            with self._lock:
                self._records += len(found.lines) if isinstance(source, KernelSource) else 0
                self._lost += found.lost
                for name in (r.monitor.name for r in read if isinstance(source, FileSource)):
                    self._unparsed[name] = self._unparsed.get(name, 0) + found.unparsed
            for line in found.lines:
                with rest.after_work(), self._matching:
                    if self._stopped.is_set():
                        return
                    self._apply(read, line, -1.0 if source.continued else begin)
            self._tick()

    def _count_xid(self, line: Line) -> None:
        """Count an XID error that the kernel itself recorded, not a program that writes to its log."""
        if not line.of_kernel or (found := xids.parse(line.text)) is None:
            return
        times, _ = self._xids.get(found, (0, 0.0))
        if times or len(self._xids) < _MOST_XIDS:
            self._xids[found] = times + 1, line.at
            self._xid_changes += 1

    def close(self) -> None:
        """Match no more lines. Waits for the one that is being matched: a thread in google-re2 must not meet the end of Python."""
        self._stopped.set()
        self._matching.acquire(timeout=_PATIENCE)

    def _apply(self, read: Iterable[_Read], line: Line, since: float) -> None:
        """Match a line; one before the boot, or before the lookback of the first start, does not count."""
        with self._lock:
            self._count_xid(line)
        now = time.time()
        booted, at = now - time.clock_gettime(time.CLOCK_BOOTTIME), min(line.at, now)
        for monitor, matcher in read:
            if at < max(since - monitor.lookback, booted - _CLOCKS + monitor.delay):
                continue
            if monitor.skip and any(part in line.text for part in monitor.skip):
                continue
            if matches := matcher.push(line.text):
                with self._lock:
                    for match in matches:
                        self._tracker.matched(monitor, match, at)

    def _mark(self, read: Iterable[_Read], *, up: bool) -> None:
        with self._lock:
            self._up |= dict.fromkeys((r.monitor.name for r in read), up)

    def _active(self) -> bool:
        return any(c.active for c in self._tracker.conditions.values())

    def _tick(self) -> None:
        """End what is over, and save what a restart must know."""
        if self._active():
            with self._lock:
                self._tracker.recover(time.time(), self._states())
        if self._state is None:
            return
        with self._lock:
            now, changes, positions = self._clock(), self.fingerprint(), self._positions()
        at, *before = self._saved
        if changes != before[0] or (positions != before[1] and now - at > _SAVE):
            self._save()
            self._saved = now, changes, positions

    def _positions(self) -> dict[str, Any]:
        return {name: source.position() for name, source in self._sources.items()}

    def _states(self) -> Mapping[str, bool]:
        """Return whether the machine has problems whose state can be read; absent if it cannot."""
        for process in ("1", "self"):
            try:
                text = host.read(self._machine.procfs / process / "mountinfo")
                return {
                    "ReadonlyFilesystem": any(m.emergency_read_only for m in mounts.parse(text))
                }
            except CollectorError:
                continue
        return {}

    def _save(self) -> None:
        if self._state is None:
            return
        with self._lock:
            state = {
                "positions": self._positions(),
                "tracker": self._tracker.dump(),
                "xids": [[*key, *value] for key, value in self._xids.items()],
            }
            save_state(self._state, self._boot_id, state)


def _log_of(read: _Read) -> str:
    """Return the name of a monitor's log: monitors of one log share a reader."""
    monitor = read.monitor
    if monitor.plugin == "kmsg":
        return _KERNEL
    return f"{monitor.plugin}:{monitor.log_path}:{sorted(monitor.plugin_config.items())}"


def _metric(kind: str) -> str:
    """Return a condition type as a part of a metric's name."""
    return "".join(c if c.isascii() and c.isalnum() else "_" for c in kind)


ENTRY = Entry(
    build=Problems,
    metrics=METRICS,
    about="problems in the kernel's log and others, by configurations of node-problem-detector",
    options=Options,
    needs="flag `--problems.config`",
    optional=True,
)
