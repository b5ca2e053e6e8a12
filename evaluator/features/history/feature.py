"""The history of this replica: what changed, when and why. In memory, and on pages; its flags."""

import math
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from evaluator.core.assembly import Core
from evaluator.core.feature import Feature
from evaluator.core.isolation import Part
from evaluator.core.model.node import Node
from evaluator.core.options import FeatureOptions
from evaluator.core.page_fields import WrittenFields, extended
from evaluator.core.pages.part import PagePart
from evaluator.core.policy.vocabulary import Vocabulary
from evaluator.core.signals import Acted, Answered, Decided, on
from evaluator.core.wiring import Loop, Wired
from evaluator.features.history.history import History
from evaluator.features.history.kinds import PAGES, Successor
from evaluator.features.history.page import HistoryReports, section
from evaluator.features.history.pods import PodDecisions
from evaluator.features.history.readers import HistoryFile, Live
from evaluator.features.history.recorder import HistoryMetrics, Recorder, Restored, restored
from evaluator.features.history.series import Series
from evaluator.features.history.shared import SharedActions, watch
from plimsoll import flags, rfc3339
from plimsoll.flags import option

_LEAST = 1 << 20


@dataclass(frozen=True, kw_only=True)
class HistoryOptions(FeatureOptions):
    """The history. Times are in seconds, sizes in bytes."""

    history: bool = option(
        "history",
        True,
        "keep in memory what changed, when and why: transitions of nodes, edits of policies, actions and elections; shown by "
        "the pages and kubectl plimsoll history",
    )
    history_size: int = option(
        "historySize",
        64 << 20,
        "memory for the history; the oldest records are dropped first",
        metavar="SIZE",
        parse=flags.size,
    )
    history_age: float = option(
        "historyAge",
        24 * 3600.0,
        "how long records are kept, within --historySize",
        metavar="DURATION",
        parse=flags.positive_duration,
    )

    history_file: str = option(
        "historyFile",
        "",
        "also append records to this file, as JSON lines; by default to none",
        metavar="FILE",
    )
    history_file_size: int = option(
        "historyFileSize",
        64 << 20,
        "size at which the file of --historyFile is rotated",
        metavar="SIZE",
        parse=flags.size,
    )
    history_files: int = option(
        "historyFiles",
        4,
        "rotated files that are kept, named .1, .2 and so on",
        metavar="N",
        parse=flags.count,
    )

    def mistakes(self, taken: Mapping[int, str], vocabulary: Vocabulary) -> Iterable[str]:
        """Yield errors in these flags together, each as a sentence."""
        if self.history_size < _LEAST:
            yield "--historySize must be 1MiB or more; --no-history keeps nothing"
        if self.history_file and not self.history:
            yield "--historyFile needs the history: leave out --no-history"


_SERIES = 0.375
_PODS = 0.0625
"""Shares of --historySize for series of readings, and for the decisions of pods; the rest is for records."""


class _Cluster:
    """What the history looks up in the cluster."""

    def __init__(self, core: Core, part: Part) -> None:
        self._core = core
        self._part = part

    def node_of(self, pod: str) -> str:
        """Return the node of the pod namespace/name; empty without one."""
        namespace, _, name = pod.partition("/")
        found = self._core.cluster.pods.objects.get((namespace, name))
        return found.spec.node_name if found else ""

    def successors(self, pod: str, since: float) -> Iterator[Successor | None]:
        """Yield the pods of a former pod's controller that were created since a time (Unix seconds), and None between steps.

        The name of a controller is that of its pods without the random end.
        """
        namespace, _, name = pod.partition("/")
        controller = name.rpartition("-")[0]
        for found in tuple(self._core.cluster.pods.objects.values()):
            meta = found.metadata
            owner, created = meta.controller, rfc3339.parse_or_none(meta.creation_timestamp)
            same = owner is not None and (meta.namespace, owner.name) == (namespace, controller)
            if same and created is not None and created >= math.floor(since):
                yield Successor(str(found), found.spec.node_name or None)
            yield None

    def restored(self) -> Iterator[Restored | None]:
        """Yield what the cluster keeps of the time before this process."""
        cluster = self._core.cluster
        policies = tuple(cluster.policies.objects.values())
        nodes, pods = tuple(cluster.nodes.objects.values()), tuple(cluster.pods.objects.values())
        return restored(policies, nodes, pods, self._written, self._part)

    def _written(self, node: Node) -> WrittenFields:
        parts = self._core.contributions.pages()
        return extended(WrittenFields(), *(part.written(node) for part in parts))


def wire(core: Core, options: HistoryOptions) -> Wired:
    """Record on every replica what it decides and does; with --no-history, nothing."""
    part = core.isolation.part("history")
    metrics, cluster = HistoryMetrics(core.metrics.registry), _Cluster(core, part)
    of_series, of_pods = (int(share * options.history_size) for share in (_SERIES, _PODS))
    size = options.history_size - of_series - of_pods
    history = History(size, options.history_age, core.contributions.action_kinds())
    series, loop = Series(of_series), core.loop
    pods = PodDecisions(history, lambda: loop.latest, cluster.node_of, of_pods, guard=part)
    started, namespace = time.time(), core.namespace

    def read_anew() -> None:
        watching.list_anew()

    actions = SharedActions(
        history,
        core.api,
        namespace,
        metrics,
        is_leader=core.fence.is_leader,
        age=options.history_age,
        started=started,
        read_anew=read_anew,
        part=core.isolation.part("shared actions"),
    )
    watching = watch(core.api, namespace, actions, core.isolation.part("watch of the history"))
    live = Live(history, lambda: loop.stopping)
    reports = HistoryReports(
        history if options.history else None,
        series,
        lambda: loop.latest,
        live,
        pods,
        actions.shown,
        cluster.successors,
        started=started,
        clock=time.time,
    )
    if not options.history:
        return Wired(page=PagePart(section=section(reports, shown=False)))
    recorder = Recorder(
        history,
        series,
        metrics,
        restore=cluster.restored,
        actions_before=lambda: actions.restores_before,
        cause_of=core.causes.cause_of,
        part=part,
    )
    page = PagePart(section=section(reports, shown=True), past=reports)
    loops: list[Loop] = [recorder.sample, pods.run, watching.run, actions.run]
    if options.history_file:
        size, kept = options.history_file_size, options.history_files
        loops.append(
            HistoryFile(history, options.history_file, size=size, kept=kept, guard=part).run
        )
    reacts = (
        on(Decided, recorder.decided),
        on(Acted, actions.acted),
        on(Answered, pods.answered),
    )
    return Wired(page=page, loops=loops, reacts=reacts, leaves=actions.leave)


FEATURE = Feature(
    name="history", options=HistoryOptions, metrics=HistoryMetrics, wire=wire, pages=PAGES
)
