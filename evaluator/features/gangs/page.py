"""Reports on gangs."""

import itertools
from collections.abc import Mapping
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

from evaluator.core.model.pod import Pod
from evaluator.core.model.pod_spec_view import FINISHED
from evaluator.core.pages import SHOWN, PageError, PageView, Report, Section
from evaluator.core.report import Facts, Window
from evaluator.features.gangs.core import explain as explain_gangs
from evaluator.features.gangs.core.explain import GangExplainer
from evaluator.features.gangs.core.membership import GATE, GROUP_LABEL
from plimsoll.http.pieces import unhurried

_TEMPLATES = Path(__file__).parent / "templates"


class GangReports:
    """Builds the reports. Each method must be called by one page at a time. `explainer`: None if gangs are off."""

    def __init__(self, explainer: GangExplainer | None) -> None:
        self._explainer = explainer

    async def queue(self, window: Window | None = None) -> Report:
        """Report on all waiting gangs, or on those of a page."""
        gangs = self._ready()
        waiting = await unhurried(gangs.waiting())
        if window is not None:
            waiting = [gang for gang in waiting if window.covers(gang.key.namespace)]
        head: dict[str, Any] = {"waitingFor": list(gangs.undecided())}
        if window is None:
            return Report(head, arrays={"gangs": gangs.queue(waiting)})
        listed = await unhurried(gangs.queue(waiting))
        selected = [entry for entry in listed if window.search in entry["gang"]]
        head["window"] = window.described(len(selected), len(listed))
        return Report(head, arrays={"gangs": window.of(selected)})

    async def gang(self, name: str, window: Window | None = None) -> Report:
        """Report on a gang: its state and the reason, its pods, and where they fit; with the nodes of a page."""
        gangs = self._ready()
        if (gang := gangs.find(name)) is None:
            raise PageError(gangs.unknown(name[:SHOWN]))
        line = await unhurried(gangs.line(gang))
        await unhurried(gangs.catching_up())
        fit = gangs.fit(gang)
        head = {**gangs.head(gang, line), "fit": fit.shapes()}
        members = await unhurried(explain_gangs.members(gang))
        if window is None:
            return Report(head, objects={"members": members, "nodes": fit.nodes()})
        nodes = await unhurried(_fitting(node, window) for node in fit.nodes())
        shown = [node for node in nodes if node is not None]
        head["window"] = window.described(len(shown), len(nodes))
        head["membersMore"] = max(0, len(members) - window.size)
        few = itertools.islice(members, window.size)
        return Report(head, objects={"members": few, "nodes": window.of(shown)})

    def _ready(self) -> GangExplainer:
        if (explainer := self._explainer) is None:
            raise PageError("gangs are off (--gangs)")
        if waiting := explainer.waiting_for():
            raise PageError(f"waiting for {', '.join(waiting)}", HTTPStatus.SERVICE_UNAVAILABLE)
        return explainer

    async def explained(self, name: str) -> Report:
        """Report on a gang, or on all waiting gangs without a name."""
        return await (self.gang(name) if name else self.queue())

    def listed_page(self, window: Window) -> PageView:
        """Return the page of the queue."""
        return PageView("gangs.html", "Gangs", partial(self.queue, window))

    def gang_page(self, name: str, window: Window) -> PageView:
        """Return the page of a gang."""
        return PageView("gang.html", "Gang", partial(self.gang, name, window), name)


def section(explainer: GangExplainer | None) -> Section:
    """Return the pages of gangs; None: gangs are off."""
    reports = GangReports(explainer)
    return Section(
        name="gangs",
        title="Gangs",
        shown=explainer is not None,
        templates=_TEMPLATES,
        listed=reports.listed_page,
        one=reports.gang_page,
        query="gang",
        explained=reports.explained,
        see={"gangs": "/explain?gang=", "gang": "/explain?gang=<namespace>/<podGroup>"},
    )


def _fitting(
    node: tuple[str, Mapping[str, Any]], window: Window
) -> tuple[str, Mapping[str, Any]] | None:
    """Return the entry of a node if it is in the search of a window."""
    return node if window.search in node[0] else None


def gang_of_pod(pod: Pod, page: Facts) -> Facts:
    """Return the gang of a pod that has our gate, and that the gate holds it; nothing for other pods."""
    if GATE not in page["gates"]:
        return {}
    group = (pod.metadata.labels or {}).get(GROUP_LABEL) or pod.metadata.name
    gang = {"gang": f"{pod.metadata.namespace}/{group}"}
    if pod.spec.node_name or pod.status.phase in FINISHED:
        return gang
    return {**gang, "turnedAwayByPlimsoll": True}
