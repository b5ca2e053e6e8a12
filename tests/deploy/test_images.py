"""The images build, are small, and run with the manifests' mounts, user and read-only root: with buildah, as root.

PLIMSOLL_IMAGE_BASE is a folder with a root file system that has Python, in place of the base image:
debootstrap --variant=minbase --include=python3,python3-venv,openssl,ca-certificates bookworm FOLDER
rm -r FOLDER/var/cache/apt/* FOLDER/var/lib/apt/lists/*
"""

import base64
import functools
import json
import os
import shutil
import subprocess
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from plimsoll import VERSION
from release import chart
from sandbox.processes import HeldPort
from tests.patience import PATIENCE
from tests.release.test_reproducible import copied

ROOT = Path(__file__).parents[2]
BASE = os.environ.get("PLIMSOLL_IMAGE_BASE")
BUDGETS = {"agent": 120, "evaluator": 180, "tools": 220}
"""Compressed size in MB: what a node downloads."""
MIRROR = [f"{name}={os.environ[name]}" for name in ("PIP_INDEX_URL", "CA_CERTIFICATE") if name in os.environ]  # fmt: skip
USERS = {"agent": 61011, "evaluator": 61012, "tools": 61013}

pytestmark = [
    pytest.mark.skipif(BASE is None, reason="PLIMSOLL_IMAGE_BASE is not set: see the module"),
    pytest.mark.skipif(shutil.which("buildah") is None, reason="buildah is not on PATH"),
    pytest.mark.skipif(os.geteuid() != 0, reason="building without user namespaces needs root"),
    pytest.mark.timeout(0),
]


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.strip()


@pytest.fixture(scope="module")
def buildah(tmp_path_factory):
    home = tmp_path_factory.mktemp("storage")
    options = ("--storage-driver", "overlay", "--root", str(home / "root"), "--runroot", str(home))
    buildah = functools.partial(run, "buildah", *options)
    yield buildah
    buildah("umount", "--all")
    buildah("rm", "--all")
    buildah("rmi", "--all", "--force")


@pytest.fixture(scope="module")
def images(buildah):
    """The images by name, built from the Dockerfile on the local base."""
    container = buildah("from", "scratch")
    buildah("copy", "-q", container, BASE, "/")
    path = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
    link = "command -v python >/dev/null || ln -s python3 /usr/bin/python"
    buildah("run", "--isolation", "chroot", container, "--", "/bin/sh", "-c", link)
    buildah("config", "--env", f"PATH={path}", container)
    buildah("commit", "-q", "--rm", container, "localhost/base")
    for name in BUDGETS:
        build(buildah, name, f"localhost/{name}", ROOT, "--layers")
    return list(BUDGETS)


def build(buildah, target, name, checkout, *options):
    """Build a target as the release does: all files have the time of the commit."""
    arguments = ("BASE=localhost/base", f"VERSION={VERSION}", "REVISION=0123abc", *MIRROR)
    given = [part for one in arguments for part in ("--build-arg", one)]
    buildah("bud", "--isolation", "chroot", "--timestamp", "1700000000", *options, *given, "--target", target, "-t", name, str(checkout))  # fmt: skip


@pytest.fixture(scope="module")
def roots(buildah, images):
    """Image -> its mounted file system."""
    return {name: Path(buildah("mount", buildah("from", f"localhost/{name}"))) for name in images}


def test_images_are_within_their_size_budgets(buildah, images, tmp_path, record_property):
    for name in images:
        archive = tmp_path / f"{name}.tar"
        buildah("push", "-q", f"localhost/{name}", f"oci-archive:{archive}")
        size = round(archive.stat().st_size / 1e6)
        record_property(f"{name} in MB, compressed", size)
        assert size <= BUDGETS[name]


def test_images_have_labels_and_an_unprivileged_user(buildah, images):
    for name in images:
        config = json.loads(buildah("inspect", "--type", "image", f"localhost/{name}"))["OCIv1"]["config"]  # fmt: skip
        assert config["User"] == f"{USERS[name]}:{USERS[name]}"
        assert config["Labels"]["org.opencontainers.image.version"] == VERSION
        assert config["Labels"]["org.opencontainers.image.revision"] == "0123abc"


def test_images_built_again_from_another_checkout_are_the_same_bit_for_bit(buildah, images, tmp_path):  # fmt: skip
    """Layers and configuration; the base image is the same."""
    checkout = copied(tmp_path / "checkout", 1_760_000_000)
    for name in images:
        build(buildah, name, f"localhost/{name}-again", checkout, "--no-cache")
        first, second = (json.loads(buildah("inspect", "--type", "image", f"localhost/{one}"))["OCIv1"] for one in (name, f"{name}-again"))  # fmt: skip
        assert first["rootfs"] == second["rootfs"]
        assert first["config"] == second["config"]


def test_an_image_has_only_its_own_program(roots):
    everything = {"agent", "evaluator", "lab", "sandbox"}
    own = {"agent": {"agent"}, "evaluator": {"evaluator"}, "tools": everything}
    for name, expected in own.items():
        (packages,) = roots[name].glob("opt/plimsoll/lib/python3*/site-packages")
        assert everything & {path.name for path in packages.iterdir()} == expected
        programs = {path.name for path in (roots[name] / "opt/plimsoll/bin").glob("*plimsoll*")}
        assert programs == {"plimsoll", *(f"plimsoll-{one}" for one in expected - {"lab"})}


def test_an_image_has_no_shell_package_manager_and_setuid_file(roots):
    for root in roots.values():
        names = {path.name for folder in ("bin", "sbin", "usr/bin", "usr/sbin") for path in (root / folder).glob("*")}  # fmt: skip
        assert not names & {"sh", "bash", "dash", "apt", "apt-get", "dpkg", "perl", "su", "pip"}
        found = [path for path in root.rglob("*") if path.is_file() and not path.is_symlink()]
        assert not [path for path in found if path.stat().st_mode & 0o6000]


@pytest.fixture
def started(roots):
    """Start a program in its image: read-only, as its user, without capabilities or new privileges."""
    processes = []

    def start(name, mounts, arguments, environment=None):
        root = roots[name]
        mounts = [*mounts.items(), ("/proc", "/proc"), ("/dev", "/dev")]  # as container runtimes do
        lines = [f"mount --bind {root} {root}"]
        for source, target in mounts:
            place = root / target.lstrip("/")
            if Path(source).is_dir():
                place.mkdir(parents=True, exist_ok=True)
            else:
                place.parent.mkdir(parents=True, exist_ok=True)
                place.touch()
            lines.append(f"mount --rbind {source} {place}")
        lines += [
            f"mount -o remount,ro,bind {root}",
            f"exec setpriv --no-new-privs chroot --userspec={USERS[name]}:{USERS[name]} --groups= {root} \"$@\"",
        ]  # fmt: skip
        path = {"PATH": "/opt/plimsoll/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}
        command = ["unshare", "--mount", "sh", "-ec", "\n".join(lines), "sh", *arguments]
        processes.append(subprocess.Popen(command, env={**path, "HOME": "/", "PYTHONSAFEPATH": "1", "NODE_NAME": "node-a", **(environment or {})}))  # fmt: skip
        return processes[-1]

    yield start
    for process in processes:
        process.terminate()
        process.wait(PATIENCE)


def page(process, port, path):
    """The text of a page, once the program listens."""
    while process.poll() is None:
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{port}{path}", timeout=PATIENCE
            ) as answer:
                return answer.read().decode()
        except ConnectionRefusedError:
            continue
        except OSError as error:
            if not isinstance(getattr(error, "reason", None), ConnectionRefusedError):
                raise
    raise AssertionError(f"exit status {process.returncode}")


def test_agent_runs_with_the_mounts_of_the_daemonset(started, tmp_path):
    pod = chart.build("core")["DaemonSet", "plimsoll-agent"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    with HeldPort() as port:
        number = port.number
    flags = [one for one in container["args"] if not one.startswith("--evaluator.")]
    state = tmp_path / "state"
    state.mkdir()
    os.chown(state, USERS["agent"], USERS["agent"])
    mounts = {"/proc": "/host/proc", "/sys": "/host/sys", str(ROOT / "deploy" / "rules"): "/etc/plimsoll/rules", str(state): "/var/lib/plimsoll"}  # fmt: skip
    process = started("agent", mounts, ["plimsoll-agent", *flags, f"--web.listen-address=127.0.0.1:{number}"])  # fmt: skip
    text = page(process, number, "/metrics")
    assert "\nnode_load1 " in text
    assert 'node_scrape_collector_success{collector="meminfo"} 1' in text


@pytest.mark.e2e
def test_evaluator_runs_with_its_account_against_an_api_server(started, control_plane, kubectl, tmp_path):  # fmt: skip
    """As in the Deployment: the account's files (/var/run is /run there), and no directory that it can write to."""
    kubectl("apply", "--server-side", "--validate=ignore", "-k", "deploy/core")
    account = tmp_path / "account"
    account.mkdir()
    token = kubectl("-n", "plimsoll", "create", "token", "plimsoll-evaluator").strip()
    (account / "token").write_text(token)
    (account / "namespace").write_text("plimsoll")
    config = json.loads(kubectl("config", "view", "--raw", "--flatten", "-o", "json"))
    cluster = config["clusters"][0]["cluster"]
    (account / "ca.crt").write_bytes(base64.b64decode(cluster["certificate-authority-data"]))
    account.chmod(0o755)
    address = urlsplit(cluster["server"])
    where = {
        "KUBERNETES_SERVICE_HOST": address.hostname,
        "KUBERNETES_SERVICE_PORT": str(address.port),
    }
    with HeldPort() as extender, HeldPort() as agents, HeldPort() as ops:
        ports = [f"--port={extender.number}", f"--agentPort={agents.number}", f"--opsPort={ops.number}"]  # fmt: skip
    mounts = {str(account): "/run/secrets/kubernetes.io/serviceaccount"}
    process = started("evaluator", mounts, ["plimsoll-evaluator", "--unsafe", "--agentUnsafe", *ports], where)  # fmt: skip
    assert page(process, ops.number, "/healthz")
    assert f'plimsoll_build_info{{version="{VERSION}"' in page(process, ops.number, "/metrics")
