"""Reports on gangs."""

import itertools
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from evaluator.features.gangs.core import explain as explain_gangs
from evaluator.features.gangs.core.explain import GangExplainer
from evaluator.features.pages.explain.window import Window
from evaluator.features.pages.report import SHOWN, PageError, Report
from plimsoll.http.pieces import unhurried


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
        found = [one for one in listed if window.search in one["gang"]]
        head["window"] = window.described(len(found), len(listed))
        return Report(head, arrays={"gangs": window.of(found)})

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
        nodes = await unhurried(_fitting(one, window) for one in fit.nodes())
        found = [one for one in nodes if one is not None]
        head["window"] = window.described(len(found), len(nodes))
        head["membersMore"] = max(0, len(members) - window.size)
        few = itertools.islice(members, window.size)
        return Report(head, objects={"members": few, "nodes": window.of(found)})

    def _ready(self) -> GangExplainer:
        if (explainer := self._explainer) is None:
            raise PageError("gangs are off (--gangs)")
        if waiting := explainer.waiting_for():
            raise PageError(f"waiting for {', '.join(waiting)}", HTTPStatus.SERVICE_UNAVAILABLE)
        return explainer


def _fitting(
    one: tuple[str, Mapping[str, Any]], window: Window
) -> tuple[str, Mapping[str, Any]] | None:
    """Return the entry of a node if it is in the search of a window."""
    return one if window.search in one[0] else None
