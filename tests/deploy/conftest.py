"""The manifests under deploy/ as kubectl builds them."""

import functools
import itertools
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from sandbox.envtest import ControlPlane, NoControlPlaneError, find
from tests.deploy.chart_values import CHART

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
BY_HAND = DEPLOY / "certificates" / "by-hand"
BLOCK = re.compile(
    r"<!-- tested: tests/deploy/test_certificates.py -->\n```sh\n(.*?)```", re.DOTALL
)
NAMES = ("kustomization.yaml", "Kustomization")


def manifests_of(folder):
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not on PATH")
    done = subprocess.run(
        ["kubectl", "kustomize", str(folder)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def objects_of(manifests):
    return [obj for obj in yaml.load_all(manifests, yaml.CSafeLoader) if obj]


@pytest.fixture(scope="session")
def built(request, tmp_path_factory):
    """Build a kustomization and return its objects; for several folders, combined. Each is built once for all workers."""
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if hasattr(request.config, "workerinput") else own

    @functools.cache
    def objects(folder):
        file = shared / f"{str(folder).replace('/', '-')}.built.yaml"
        if not file.exists():
            made = own / file.name
            made.write_text(manifests_of(DEPLOY / folder))
            made.replace(file)  # other workers never see half a file
        return objects_of(file.read_text())

    return lambda *folders: [obj for folder in folders for obj in objects(folder)]


@pytest.fixture
def with_components(built, tmp_path):
    """The objects of a base with components, as in a user's overlay."""

    def build(base, *components):
        # Kustomize rejects absolute paths and links out of its root, so the overlay is inside a copy.
        home = tmp_path / "-".join((base, *components)).replace("/", "-")
        shutil.copytree(DEPLOY, home)
        overlay = {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "resources": [f"../{base}"],
            "components": [f"../components/{name}" for name in components],
        }
        (home / "overlay").mkdir()
        (home / "overlay" / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
        return objects_of(manifests_of(home / "overlay"))

    return build


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """A folder with the certificates after the commands of the by-hand README."""
    version = subprocess.run(["openssl", "version"], capture_output=True, text=True, check=False)
    if not version.stdout.startswith("OpenSSL 3"):
        pytest.skip("no OpenSSL 3 on PATH")
    folder = tmp_path_factory.mktemp("certificates") / "by-hand"
    shutil.copytree(BY_HAND, folder, ignore=shutil.ignore_patterns("*.key", "*.crt"))
    block = BLOCK.search((folder / "README.md").read_text())
    shell = ["bash", "-euo", "pipefail", "-c", block[1]]
    done = subprocess.run(shell, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@functools.cache
def kustomizations():
    """Folders with a kustomization that builds without changes."""
    found = itertools.chain.from_iterable(DEPLOY.rglob(name) for name in NAMES)
    folders = sorted(path.parent.relative_to(DEPLOY) for path in found)
    return [folder for folder in folders if kind(folder) == "Kustomization" and not by_hand(folder)]


def kind(folder):
    (path,) = [DEPLOY / folder / name for name in NAMES if (DEPLOY / folder / name).exists()]
    return yaml.load(path.read_text(), yaml.CSafeLoader)["kind"]


def by_hand(folder):
    """Users create its files."""
    return folder.name == "by-hand"


def pytest_generate_tests(metafunc):
    """`folder`: each kustomization in turn."""
    if "folder" in metafunc.fixturenames:
        folders = kustomizations()
        metafunc.parametrize("folder", folders, ids=[str(folder) for folder in folders])


@pytest.fixture(scope="module")
def control_plane(tmp_path_factory):
    """A real API server, if its programs are installed."""
    try:
        binaries = find(os.environ)
    except NoControlPlaneError as error:
        pytest.skip(str(error))
    with ControlPlane(binaries, tmp_path_factory.mktemp("control-plane")) as running:
        yield running


@pytest.fixture
def run(control_plane):
    """Run a program as its administrator and return the output."""

    def program(name, *arguments, given=None):
        done = subprocess.run(
            [name, *arguments],
            input=given,
            env={**os.environ, "KUBECONFIG": str(control_plane.kubeconfig)},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return program


@pytest.fixture
def kubectl(run):
    return functools.partial(run, "kubectl")


@pytest.fixture(scope="module")
def chart():
    """The Helm chart, loaded."""
    helm = pytest.importorskip("helm_python", reason="helm-python-sdk has no wheel here")
    with helm.Chart.load(CHART) as loaded:
        yield loaded


@pytest.fixture(scope="module")
def render(chart):
    """Objects by kind and name, as `helm template` prints them."""

    def rendered(values=None, namespace="plimsoll"):
        files = chart.render(values=values or {}, name="plimsoll", namespace=namespace)
        texts = [text for path, text in files.items() if path.endswith(".yaml")]
        objects = [one for text in texts for one in yaml.load_all(text, yaml.CSafeLoader) if one]
        keys = [(one["kind"], one["metadata"]["name"]) for one in objects]
        assert len(keys) == len(set(keys))
        return dict(zip(keys, objects, strict=True))

    return rendered
