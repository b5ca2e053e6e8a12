"""What the demos share: a cluster, actions and observations, and the exit status."""

import contextlib
import json
import shlex
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from plimsoll import logs
from sandbox import manifests
from sandbox.client.client import ApiError, ensure
from sandbox.client.objects import DEPLOYMENTS, NAMESPACES, PODS, POLICIES, Object, ObjectKind
from sandbox.cluster import Cluster, ClusterSpec
from sandbox.config import DemoSettings
from sandbox.demo import shell
from sandbox.demo.narrator import Narrator, NotSeenError
from sandbox.demo.saved import save

_KINDS: dict[str, ObjectKind] = {
    "Namespace": NAMESPACES,
    "TASPolicy": POLICIES,
    "Deployment": DEPLOYMENTS,
}


@dataclass(frozen=True)
class Stage:
    """A running cluster and the narrator of the demo."""

    cluster: Cluster
    narrator: Narrator
    http: aiohttp.ClientSession

    def write(self, node: str, name: str, *lines: str) -> None:
        """Write a text file for a node's agent, and print the command for it."""
        file = self.cluster.node_metrics(node) / name
        self.narrator.print_action(shell.write(lines, file))
        file.write_text("".join(f"{line}\n" for line in lines))

    async def create(self, pod: Object) -> None:
        """Create a pod, and print the command for it."""
        self.narrator.print_action(f"echo {shlex.quote(json.dumps(pod))} | kubectl apply -f -")
        await ensure(self.cluster.client, PODS, pod)

    async def apply(self, manifest: str) -> None:
        """Create the objects of a file under deploy/, and print the command for it."""
        self.narrator.print_action(f"kubectl apply -f {shell.path(manifests.folder() / manifest)}")
        for obj in manifests.load(manifests.folder() / manifest):
            await ensure(self.cluster.client, _KINDS[obj["kind"]], obj)

    async def running_pod(self, namespace: str, *excluded: str) -> Object | None:
        """Return the running pod of the demo's Deployment; None if there is none, or it is on one of these nodes."""
        for pod in (await self.cluster.client.list(PODS, namespace, labels="app=demo")).items:
            leaving = pod["metadata"].get("deletionTimestamp")
            if pod["status"].get("phase") == "Running" and not leaving:
                return pod if pod["spec"]["nodeName"] not in excluded else None
        return None

    async def is_gone(self, namespace: str, pod: Object) -> bool | None:
        """Return True if a pod was deleted or is being deleted, else None."""
        meta = pod["metadata"]
        try:
            now = await self.cluster.client.get(PODS, meta["name"], namespace)
        except ApiError as error:
            return True if error.status == 404 else None
        left = now["metadata"]["uid"] != meta["uid"] or "deletionTimestamp" in now["metadata"]
        return True if left else None

    async def get_explain(self, what: str) -> Object:
        """Return the evaluator's response to `/explain` with this path or query."""
        async with self.http.get(f"{self.cluster.endpoints.ops}/explain{what}") as response:
            return dict(await response.json())


@dataclass(frozen=True)
class Demo:
    """A demo: its name, the cluster it needs, its steps, and the command that starts such a cluster."""

    title: str
    make_spec: Callable[[Path], ClusterSpec]
    run_steps: Callable[[Stage], Awaitable[None]]
    up_command: str


async def run_demo(
    play: Demo, settings: DemoSettings, *, make_cluster: Callable[[ClusterSpec], Cluster] = Cluster
) -> int:
    """Run a demo; return the exit status, 0 only if every step was observed."""
    logs.setup("error")
    narrator, begun = Narrator(), round(time.time())
    narrator.title(play.title)
    with _folder(settings.dir) as folder:
        narrator.paragraph(
            "The Kubernetes API is in memory and the nodes are simulated. The three agents, the evaluator and "
            f"their communication are real. Logs are in {folder}/logs/."
        )
        async with make_cluster(play.make_spec(folder)) as cluster, aiohttp.ClientSession() as http:
            up_command = _up_command(play, cluster)
            narrator.paragraph("The commands, for another terminal:")
            narrator.suggest(f"export KUBECONFIG={shell.path(cluster.dir / 'kubeconfig')}")
            try:
                await play.run_steps(Stage(cluster, narrator, http))
            except NotSeenError as missed:
                narrator.step(f"The demo ends here: «{missed}» was not observed")
                narrator.paragraph("The end of the programs' logs:")
                narrator.print_output(_log_ends(folder))
                return 1
            page = f"{cluster.endpoints.ops}/history?by=node&since={begun}"
            file = await save(http, page, settings.dir)
    narrator.step(f"All {narrator.seen} expected effects were observed")
    narrator.paragraph("What just happened, as a page that opens without a server:")
    narrator.print_output(file.as_uri())
    narrator.paragraph(
        "Try it by hand: this starts such a cluster again. The commands above work there as they are, but for generated names "
        "of pods."
    )
    narrator.suggest(up_command)
    return 0


def _up_command(play: Demo, cluster: Cluster) -> str:
    """Return the command that starts such a cluster again, in the same folder and with the same ops address."""
    port = cluster.endpoints.ops.rpartition(":")[2]
    up = f"{shell.program('plimsoll')} {play.up_command}"
    return f"{up} --dir={shell.path(cluster.dir)} --ops-port={port}"


@contextlib.contextmanager
def _folder(path: str) -> Iterator[Path]:
    """Yield the given folder, which is kept, or a temporary one."""
    if path:
        yield Path(path)
        return
    with tempfile.TemporaryDirectory(prefix="plimsoll-demo-") as temporary:
        yield Path(temporary)


def _log_ends(folder: Path) -> str:
    lines = []
    for log in sorted((folder / "logs").glob("*.log")):
        lines += [f"{log.stem}: {line}" for line in log.read_text().splitlines()[-3:]]
    return "\n".join(lines)
