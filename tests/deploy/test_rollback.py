"""docs/upgrade.md: kubectl rolls forward, back and forward again, also after a prune and after `rollout undo`."""

import asyncio
import json
import os
import re
import shutil
from pathlib import Path

import pytest
import yaml

from sandbox.apiserver.server import ApiServer
from sandbox.endpoints import kubeconfig
from sandbox.envtest import NoControlPlaneError
from tests.eventually import eventually

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"<!-- tested: tests/deploy/test_(\w+).py -->\n *```sh\n(.*?)```", re.DOTALL)
BLOCKS = BLOCK.findall((ROOT / "docs" / "upgrade.md").read_text())
ROLL_BACK, AFTER_UNDO = [block for test, block in BLOCKS if test == "rollback"]
(PRUNE,) = [block for test, block in BLOCKS if test == "lifecycle"]
UPGRADE = ROLL_BACK
IMAGES = {"old": "plimsoll/evaluator:0.9", "new": "plimsoll/evaluator:1.0"}
CONTROLLERS = ("deployment-controller", "replicaset-controller", "daemonset-controller")

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on PATH"),
]


class User:
    """Runs commands of the page, with the checkouts `old` and `new` of two versions."""

    def __init__(self, folder, config, served):
        self._folder = folder
        self._environment = {**os.environ, "KUBECONFIG": str(config)}
        self._served = served

    async def run(self, text, version="new", *, fails=False):
        """Run commands; return the output, or with `fails` the error. Their server may have no OpenAPI document."""
        text = text.replace("kubectl apply ", "kubectl apply --validate=ignore ")
        process = await asyncio.create_subprocess_exec(
            *("bash", "-euo", "pipefail", "-c", text),
            cwd=self._folder / version,
            env=self._environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = (one.decode() for one in await process.communicate())
        assert (process.returncode != 0) == fails, err
        return err if fails else out

    async def check_out(self, version):
        """A checkout: versions differ in images, flags and rules. Only kinds that the server has."""
        home = self._folder / version
        home.mkdir()
        shutil.copytree(ROOT / "deploy", home / "deploy")
        with (home / "deploy" / "rules" / "health.yaml").open("a") as rules:
            rules.write(f"# {version}\n")
        objects = yaml.safe_load_all(await self.run("kubectl kustomize deploy/core", version))
        kept = [one for one in objects if not self._served or one["kind"] in self._served]
        for one in kept:
            if one["kind"] == "Deployment":
                (container,) = one["spec"]["template"]["spec"]["containers"]
                container["image"] = IMAGES[version]
                container["args"].append(f"--leaseName={version}")
        (home / "deploy" / "objects.yaml").write_text(yaml.safe_dump_all(kept))
        (home / "deploy" / "kustomization.yaml").write_text("resources: [objects.yaml]\n")

    async def agrees(self, version):
        """Check that the cluster has what a version's manifests have, and none of them is missing."""
        found = json.loads(await self.run("kubectl get -f deploy/objects.yaml -o json", version))
        deployment = next(one for one in found["items"] if one["kind"] == "Deployment")
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        assert container["image"] == IMAGES[version]
        assert f"--leaseName={version}" in container["args"]
        rules = next(one for one in found["items"] if one["kind"] == "ConfigMap")
        assert rules["data"]["health.yaml"].endswith(f"# {version}\n")
        for one in found["items"]:
            if one["kind"] == "DaemonSet":
                volumes = one["spec"]["template"]["spec"]["volumes"]
                mounted = [v["configMap"]["name"] for v in volumes if "configMap" in v]
                assert mounted == [rules["metadata"]["name"]]

    async def recorded(self, revision):
        """Whether the Deployment's controller has recorded so many revisions."""
        text = await self.run("kubectl -n plimsoll get deployment plimsoll-evaluator -o json")
        found = json.loads(text)["metadata"].get("annotations", {})
        return int(found.get("deployment.kubernetes.io/revision", 0)) >= revision

    async def prune(self, version="new"):
        kinds = ("apiservices", "configmaps") if self._served else None
        text = PRUNE if kinds is None else re.sub("kinds=.*", f"kinds={','.join(kinds)}", PRUNE)
        printed = await self.run(text, version)
        assert "deleted" in printed


SANDBOX = {"Namespace", "CustomResourceDefinition", "ServiceAccount", "ConfigMap", "Service", "PriorityClass", "Deployment", "PodDisruptionBudget"}  # fmt: skip


@pytest.fixture(params=["sandbox", "real"])
async def plane(request, tmp_path):
    """(kubeconfig, the control plane if it is a real one)"""
    if request.param == "real":
        control_plane = request.getfixturevalue("control_plane")
        yield control_plane.kubeconfig, control_plane
        return
    server = ApiServer()
    config = tmp_path / "kubeconfig"
    config.write_text(kubeconfig(await server.start()))
    yield config, None
    await server.close()


@pytest.fixture
async def user(plane, tmp_path):
    """A user with both checkouts, at the older version."""
    config, real = plane
    made = User(tmp_path, config, None if real else SANDBOX)
    for version in IMAGES:
        await made.check_out(version)
    await made.run(UPGRADE, "old")
    return made


async def test_forward_back_and_forward_with_a_prune_between(user):
    await user.agrees("old")
    await user.run(UPGRADE, "new")
    await user.agrees("new")
    await user.prune()
    await user.run(ROLL_BACK, "old")
    await user.agrees("old")  # also the ConfigMap of its rules, which was pruned
    await user.run(UPGRADE, "new")
    await user.agrees("new")


async def test_apply_after_rollout_undo(user, plane):
    """An undo takes fields over, so the next apply conflicts unless it is told to take them back."""
    await user.run(UPGRADE, "new")
    await undo(user, plane[1])
    conflict = await user.run(UPGRADE, "new", fails=True)
    assert re.match(r"error: Apply failed with \d+ conflicts?: conflicts? with \"kubectl", conflict)
    await user.run(AFTER_UNDO, "new")
    await user.agrees("new")
    await user.run(ROLL_BACK, "old")  # no conflict is left
    await user.agrees("old")


async def undo(user, real):
    """`kubectl rollout undo`, for which a real control plane needs controllers; else what it sends."""
    if real is None:
        image = [{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": IMAGES["old"]}]  # fmt: skip
        await user.run(
            "kubectl -n plimsoll patch deployment/plimsoll-evaluator --field-manager=kubectl-rollout "
            f"--type=json -p '{json.dumps(image)}'"
        )
        return
    try:
        with real.controllers(*CONTROLLERS) as is_up:
            await eventually(is_up)
            for version, revision in (("old", 1), ("new", 2)):
                await user.run(UPGRADE, version)
                await eventually(lambda wanted=revision: user.recorded(wanted))
            await user.run("kubectl -n plimsoll rollout undo deployment/plimsoll-evaluator")
    except NoControlPlaneError as error:
        pytest.skip(str(error))
