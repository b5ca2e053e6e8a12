"""Gangs: pods that wait behind a gate until their whole group exists and fits."""

from evaluator.core.assembly import Core
from evaluator.core.feature import Feature
from evaluator.core.http.ports import Port
from evaluator.core.model.pod import Pod
from evaluator.core.pages import PagePart
from evaluator.core.report import Facts
from evaluator.core.wiring import Wired
from evaluator.features.gangs import webhook_port
from evaluator.features.gangs.build import GangManager
from evaluator.features.gangs.core.explain import GangExplainer
from evaluator.features.gangs.metrics import GangMetrics
from evaluator.features.gangs.options import GangOptions
from evaluator.features.gangs.page import gang_of_pod, section
from evaluator.features.gangs.pods.labels import membership


class Shown:
    """What pages of pods and of the evaluator show of gangs."""

    def __init__(self, explainer: GangExplainer) -> None:
        self._explainer = explainer

    def page(self) -> PagePart:
        """Return the part of pages."""
        return PagePart(evaluator=self.evaluator, pod=self.pod, section=section(self._explainer))

    def evaluator(self) -> Facts:
        """Return that gangs are on."""
        return {"gangs": True}

    def pod(self, pod: Pod, page: Facts) -> Facts:
        """Return the gang of a pod and why it waits, if this evaluator knows."""
        gangs, facts = self._explainer, gang_of_pod(pod, page)
        if not facts or gangs.waiting_for() or (gang := gangs.find(facts["gang"])) is None:
            return facts
        head = gangs.head(gang, ())
        return {**facts, "gangState": head["state"], "gangMessage": head["message"]}


def _off() -> Facts:
    return {"gangs": False}


NO_GANGS = PagePart(evaluator=_off, pod=gang_of_pod, section=section(None))
"""What pages show without --gangs."""


def wire(core: Core, options: GangOptions) -> Wired:
    """Release gangs while this replica leads, with --gangs; serve the webhook with --gangWebhookPort."""
    metrics = GangMetrics(core.metrics.registry)
    server = webhook_port.server(core.options, options, core.metrics, metrics)
    ports = []
    if server is not None:
        ports.append(Port("gangs", server, options.gang_webhook_port, secured=True))
    if not options.gangs:
        return Wired(ports=ports, page=NO_GANGS)
    gangs = GangManager(
        options,
        core.api,
        core.cluster,
        core.loop,
        metrics,
        inventory=core.all_pods.require(ignored=options.ignored_resources, extra=membership),
        fence=core.fence,
        list_anew=core.all_pods.list_anew,
    )
    shown = Shown(gangs.gang_explainer)
    return Wired(
        ports=ports,
        loops=gangs.loops(),
        page=shown.page(),
    )


FEATURE = Feature(name="gangs", options=GangOptions, metrics=GangMetrics, wire=wire)
