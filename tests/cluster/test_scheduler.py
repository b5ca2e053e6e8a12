"""The real kube-scheduler with the shipped and the generated configuration, over mutual TLS."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from evaluator.main import main
from sandbox.client.objects import PODS
from sandbox.envtest import ControlPlane

pytestmark = pytest.mark.e2e

DEPLOY = Path(__file__).parents[2] / "deploy"
NAME = "plimsoll-evaluator.plimsoll.svc"
MANIFEST = """\
apiVersion: v1
kind: Pod
spec:
  containers:
  - command:
    - kube-scheduler
    - --kubeconfig={kubeconfig}
    volumeMounts:
    - mountPath: /etc/kubernetes/scheduler.conf
      name: kubeconfig
  hostNetwork: true
  volumes:
  - hostPath:
      path: /etc/kubernetes/scheduler.conf
    name: kubeconfig
"""


@pytest.fixture(scope="session")
def certificates(tmp_path_factory):
    """Certificates as made by deploy/certificates/by-hand."""
    if not shutil.which("openssl"):
        pytest.skip("openssl is not on PATH")
    folder = tmp_path_factory.mktemp("certificates")
    config = DEPLOY / "certificates/by-hand/openssl.cnf"
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-noenc", "-days", "2")
    signed = ("-CA", "ca.crt", "-CAkey", "ca.key")
    for who, signer in (("ca", ()), ("extender", signed), ("scheduler", signed)):
        out = ("-subj", f"/CN={who}", "-keyout", f"{who}.key", "-out", f"{who}.crt")
        made = ("req", "-x509", "-config", str(config), *key, "-extensions", who, *out, *signer)
        subprocess.run(["openssl", *made], cwd=folder, check=True, capture_output=True)
    return folder


@pytest.fixture
def host(world, certificates, tmp_path):
    """The files of a control plane node: a manifest as of kubeadm, and its dependencies."""
    if not isinstance(world.plane.server, ControlPlane):
        pytest.skip("only kube-scheduler reads its configuration")
    folder = tmp_path / "plimsoll"
    folder.mkdir()
    for name, source in (
        ("ca.crt", "ca.crt"),
        ("tls.crt", "scheduler.crt"),
        ("tls.key", "scheduler.key"),
    ):
        shutil.copy(certificates / source, folder / name)
    manifest = tmp_path / "manifests/kube-scheduler.yaml"
    manifest.parent.mkdir()
    manifest.write_text(MANIFEST.format(kubeconfig=world.plane.kubeconfig))
    return manifest, folder


@pytest.fixture
def tls(certificates):
    """The flags of the evaluator."""
    files = {"cert": "extender.crt", "key": "extender.key", "cacert": "ca.crt"}
    return (
        "--no-unsafe",
        "--agentUnsafe",
        *(f"--{flag}={certificates / name}" for flag, name in files.items()),
    )


async def test_written_configuration_places_pods(world, host, tls):
    manifest, folder = host
    url = world.evaluator.extender.replace("http://", "https://")
    argv = ("configure-scheduler", f"--manifest={manifest}", f"--folder={folder}", f"--url={url}")
    assert main(argv) == 0
    (config,) = re.findall(r"--config=(\S+)", manifest.read_text())
    good, bad = await world.add_node("good"), await world.add_node("bad")
    policy = await world.add_policy("demo", dontschedule=["health Equals 1"])
    world.fleet.say(good, health=0)
    world.fleet.say(bad, health=1)
    await world.start(*tls)
    with world.plane.server.scheduler(Path(config)) as is_up:
        await world.eventually(is_up)
        for number in range(4):
            await world.add_pod(f"web-{number}", policy)

        async def placed():
            pods = (await world.client.list(PODS, world.namespace)).items
            nodes = [pod["spec"].get("nodeName") for pod in pods]
            return all(nodes) and nodes

        assert await world.eventually(placed) == [good] * 4


async def test_evaluator_with_another_certificate_name_is_rejected(world, host, tls):
    manifest, folder = host
    url = world.evaluator.extender.replace("http://", "https://")
    where = (f"--manifest={manifest}", f"--folder={folder}", f"--url={url}")
    assert main(("configure-scheduler", *where, "--server-name=kubernetes.default.svc")) == 0
    (config,) = re.findall(r"--config=(\S+)", manifest.read_text())
    node = await world.add_node("a")
    policy = await world.add_policy("demo", dontschedule=["health Equals 1"])
    world.fleet.say(node, health=0)
    await world.start(*tls)
    with world.plane.server.scheduler(Path(config)) as is_up:
        await world.eventually(is_up)
        await world.add_pod("web", policy)

        async def told():
            conditions = (await world.client.get(PODS, "web", world.namespace))["status"]
            return "x509" in str(conditions.get("conditions"))

        await world.eventually(told)


@pytest.mark.parametrize("name", ["configuration.yaml", "scorers.yaml"])
async def test_shipped_configuration_is_accepted(world, host, name):
    _, folder = host
    text = (DEPLOY / "scheduler" / name).read_text()
    text = text.replace("/etc/kubernetes/scheduler.conf", str(world.plane.kubeconfig))
    config = folder / "configuration.yaml"
    config.write_text(text.replace("/etc/kubernetes/plimsoll", str(folder)))
    # kube-scheduler does not start with an unknown field.
    with world.plane.server.scheduler(config) as is_up:
        await world.eventually(is_up)
