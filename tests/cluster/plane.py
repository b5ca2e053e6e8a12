"""An API server of a scenario, the sandbox's or a real one, and its scheduler."""

import asyncio
import contextlib
import json
import random
from dataclasses import dataclass
from pathlib import Path

import pytest

from sandbox.apiserver.server import ApiServer
from sandbox.client.client import ApiError, Client
from sandbox.endpoints import kubeconfig
from sandbox.envtest import ControlPlane, NoControlPlaneError
from sandbox.scheduler.extender import Extender, ExtenderSpec
from sandbox.scheduler.extenders import Extenders
from sandbox.scheduler.scheduler import Scheduler
from tests.eventually import eventually
from tests.patience import PATIENCE


@dataclass
class Plane:
    """An API server: its URL, an administrator's client, and its programs."""

    kubeconfig: Path
    client: Client
    server: ApiServer | ControlPlane | None

    @contextlib.asynccontextmanager
    async def scheduler(self, extender, folder, *, weight=1, names_only=True, preempt=True):
        """A scheduler with one extender, or without any if None: the sandbox's, or the real kube-scheduler.

        `weight`: the extender's; `names_only`: nodeCacheCapable; `preempt`: whether it has a preemptVerb.
        """
        if isinstance(self.server, ApiServer):
            async with contextlib.AsyncExitStack() as stack:
                specs = (
                    [
                        ExtenderSpec(
                            extender, weight=weight, node_cache_capable=names_only, preempt=preempt
                        )
                    ]
                    if extender
                    else []
                )
                asked = [await stack.enter_async_context(Extender(spec)) for spec in specs]
                binder = asyncio.create_task(
                    Scheduler(self.client, Extenders(asked), rng=random.Random(1)).run()
                )
                yield
                binder.cancel()
                await asyncio.wait([binder])
        elif isinstance(self.server, ControlPlane):
            config = folder / "scheduler.yaml"
            made = scheduler_config(
                self.kubeconfig, extender, weight, names_only=names_only, preempt=preempt
            )
            config.write_text(json.dumps(made))
            try:
                with self.server.scheduler(config) as is_up:
                    await eventually(is_up)
                    yield
            except NoControlPlaneError as error:
                pytest.skip(str(error))
        else:
            pytest.skip("a cluster's own scheduler is not ours to configure")


async def requires(plane, group_version, plural):
    """Skip the test if the API server does not serve a resource; the reason names the API."""
    try:
        found = await plane.client.request("GET", f"/apis/{group_version}")
    except ApiError as error:
        if error.status != 404:
            raise
        found = {"resources": []}
    if plural not in {one["name"] for one in found["resources"]}:
        pytest.skip(f"the API server has no {plural} of {group_version}")


def scheduler_config(kubeconfig, extender, weight=1, *, names_only=True, preempt=True):
    """A KubeSchedulerConfiguration with one extender over plain HTTP, or without any if None."""
    plain = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "leaderElection": {"leaderElect": False},
    }
    if extender is None:
        return plain
    return plain | {
        "extenders": [
            {
                "urlPrefix": extender,
                "filterVerb": "filter",
                "prioritizeVerb": "prioritize",
                "weight": weight,
                "enableHTTPS": False,
                "nodeCacheCapable": names_only,
                **({"preemptVerb": "preempt"} if preempt else {}),
                "managedResources": [{"name": "telemetry/scheduling", "ignoredByScheduler": True}],
            }
        ],
    }


async def sandbox_plane(folder, stack):
    # It shares this process, which may be slower than a check of an APIService is patient.
    server = ApiServer(check_timeout=PATIENCE)
    url = await server.start()
    stack.push_async_callback(server.close)
    config = folder / "kubeconfig"
    config.write_text(kubeconfig(url))
    return Plane(config, await stack.enter_async_context(Client(url)), server)
