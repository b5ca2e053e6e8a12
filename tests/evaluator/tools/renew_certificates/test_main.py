"""The command on an API server: any mix of files before and after a run authenticates; what does not fit is refused."""

import asyncio
import base64
import contextlib
import itertools
import shutil
import socket
import ssl
import stat
import subprocess
import threading

import pytest

from evaluator.core import tls
from evaluator.tools.renew_certificates.main import main
from sandbox.pki import CertificateAuthority
from tests.patience import PATIENCE

pytestmark = pytest.mark.skipif(not shutil.which("openssl"), reason="openssl is not on PATH")

EXTENDER, AGENTS, SCHEDULER = (
    "plimsoll-extender-tls",
    "plimsoll-agents-tls",
    "plimsoll-scheduler-client",
)
SECRETS = "/api/v1/namespaces/plimsoll/secrets"
APISERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
SERVICE = "plimsoll-evaluator.plimsoll.svc"
ISSUED = {
    EXTENDER: ("plimsoll-evaluator", f"DNS:{SERVICE},IP:127.0.0.1", "serverAuth"),
    AGENTS: ("plimsoll-evaluator-agents", "DNS:plimsoll-evaluator-agents.plimsoll.svc", "serverAuth"),
    SCHEDULER: ("kube-scheduler", "", "clientAuth"),
}  # fmt: skip


def encoded(data):
    return base64.b64encode(data).decode()


def secret(name, authority, **meta):
    common_name, san, usage = ISSUED[name]
    pair = authority.issue(common_name, san=san, usage=usage)
    files = {"ca.crt": authority.file, "tls.crt": pair.cert, "tls.key": pair.key}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/tls",
        "metadata": {"name": name, **meta},
        "data": {key: encoded(path.read_bytes()) for key, path in files.items()},
    }


@pytest.fixture
def authority(tmp_path):
    return CertificateAuthority(tmp_path / "old")


@pytest.fixture
async def installed(api, authority):
    """An installation whose secrets were made with one CA."""
    await api.call(
        "POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "plimsoll"}}
    )  # fmt: skip
    for name in ISSUED:
        await api.call("POST", SECRETS, secret(name, authority))
    return api


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "new"


@pytest.fixture
def renew(installed, folder, kubeconfig, capsys):
    """Run the command; return its exit status, output and errors."""

    async def run(*flags):
        config = f"--kubeConfig={kubeconfig(installed.url)}"
        status = await asyncio.to_thread(main, [str(folder), config, *flags])
        return status, *capsys.readouterr()

    return run


async def stored(api):
    """Return the files of each secret."""
    return {
        name: {
            key: base64.b64decode(text)
            for key, text in (await api.get(f"{SECRETS}/{name}"))["data"].items()
        }
        for name in ISSUED
    }


async def runs(api, renew):
    """Run the command until all is done; return the secrets before the first run and after each."""
    found = [await stored(api)]
    for flags in ((), ("--yes",), ("--yes",)):
        status, out, err = await renew(*flags)
        assert (status, err) == (0, ""), err
        assert "PRIVATE" not in out
        found.append(await stored(api))
    return found


class Copies:
    """Secrets written to files, as pods mount them and control plane nodes copy them."""

    def __init__(self, folder):
        self._folders = (folder / str(number) for number in itertools.count())

    def __call__(self, files):
        home = next(self._folders)
        home.mkdir(parents=True)
        for name, content in files.items():
            (home / name).write_bytes(content)
        return [str(home / name) for name in ("tls.crt", "tls.key", "ca.crt")]


@pytest.fixture
def copies(tmp_path):
    return Copies(tmp_path / "copies")


def handshake(server, client, name):
    """Return whether both authenticate each other over a socket."""
    ours, theirs = socket.socketpair()
    ours.settimeout(PATIENCE)
    theirs.settimeout(PATIENCE)

    def serve():
        with contextlib.suppress(OSError), server.wrap_socket(ours, server_side=True) as secured:
            secured.sendall(b"ok")
        ours.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with client.wrap_socket(theirs, server_hostname=name) as secured:
            return secured.recv(2) == b"ok"
    except OSError:
        return False
    finally:
        theirs.close()
        thread.join()


def scheduler_reaches(copies, evaluator, scheduler):
    """`evaluator`, `scheduler`: secrets when each read its files."""
    server = tls.server_context(tls.Files(*copies(evaluator[EXTENDER])))
    cert, key, ca = copies(scheduler[SCHEDULER])
    client = ssl.create_default_context(cafile=ca)
    client.load_cert_chain(cert, key)
    return handshake(server, client, SERVICE)


def agents_reach(copies, evaluator, agent):
    cert, key, _ = copies(evaluator[AGENTS])
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(cert, key)
    client = ssl.create_default_context(cafile=copies(agent[AGENTS])[2])
    return handshake(server, client, "plimsoll-evaluator-agents.plimsoll.svc")


async def test_every_mix_of_files_before_and_after_a_run_authenticates(installed, renew, copies):
    """Pods get their files within minutes, control plane nodes one after the other."""
    found = await runs(installed, renew)
    for mixed in itertools.pairwise(found):
        for evaluator, client in itertools.product(mixed, repeat=2):
            assert scheduler_reaches(copies, evaluator, client)
            assert agents_reach(copies, evaluator, client)
    first, *_, last = found
    assert not scheduler_reaches(copies, last, first)
    assert not agents_reach(copies, first, last)


async def test_each_run_changes_only_what_it_says(installed, renew):
    before, trusted, replaced, last = await runs(installed, renew)
    for name in ISSUED:
        assert trusted[name]["tls.crt"] == before[name]["tls.crt"]
        assert trusted[name]["ca.crt"].startswith(before[name]["ca.crt"])
        assert trusted[name]["ca.crt"].count(b"BEGIN CERTIFICATE") == 2
        assert replaced[name]["ca.crt"] == trusted[name]["ca.crt"]
        assert replaced[name]["tls.key"] != before[name]["tls.key"]
        assert last[name]["tls.crt"] == replaced[name]["tls.crt"]
        assert last[name]["ca.crt"].count(b"BEGIN CERTIFICATE") == 1


def described(cert, *arguments):
    command = ["openssl", "x509", "-noout", "-subject", *arguments]
    done = subprocess.run(command, input=cert, capture_output=True, check=True)
    return sorted(done.stdout.splitlines())


async def test_certificates_keep_their_names_and_uses(installed, renew):
    before, *_, last = await runs(installed, renew)
    for name, files in before.items():
        kept = ("-ext", "subjectAltName,extendedKeyUsage")
        assert described(last[name]["tls.crt"], *kept) == described(files["tls.crt"], *kept)


async def test_keys_are_for_the_owner_and_deleted_after_the_last_run(installed, renew, folder):
    await renew()
    files = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    leaves = {f"{name}.{end}" for name in ("extender", "agents", "scheduler") for end in ("crt", "key")}  # fmt: skip
    assert files == dict.fromkeys(leaves | {"ca.crt"}, 0o600)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {path.name for path in folder.parent.iterdir()} == {"old", "new", "kubeconfig"}
    await renew("--yes")
    await renew("--yes")
    assert {path.suffix for path in folder.iterdir()} == {".crt"}
    before = await stored(installed)
    assert "nothing to do" in (await renew())[1]
    assert await stored(installed) == before


async def test_each_run_says_how_to_copy_the_files(renew):
    for flags, then in (((), "again"), (("--yes",), "again"), (("--yes",), "last run")):
        _, out, _ = await renew(*flags)
        assert "kubectl -n plimsoll get secret plimsoll-scheduler-client" in out
        assert all(len(line) <= 80 for line in out.splitlines() if "/" not in line)
        assert then in out.splitlines()[-1]


async def test_later_runs_need_a_yes(installed, renew):
    """kube-scheduler reads its files at startup: without a copy, each pod with a policy would hang."""
    await renew()
    trusted = await stored(installed)
    status, _, err = await renew()
    assert status == 1
    assert "add --yes if each control plane node has ca.crt with both CAs" in err
    assert await stored(installed) == trusted
    await renew("--yes")
    replaced = await stored(installed)
    status, _, err = await renew()
    assert "each control plane node has the new tls.crt and tls.key" in err
    assert await stored(installed) == replaced


async def test_dry_run_changes_nothing(installed, renew, folder):
    before = await stored(installed)
    _, out, _ = await renew("--dry-run")
    assert out.count("would add the new CA") == 3
    assert not folder.exists()
    await renew()
    trusted = await stored(installed)
    _, out, _ = await renew("--dry-run")
    assert out.count("would replace tls.crt and tls.key") == 3
    assert await stored(installed) == trusted != before


async def test_run_that_ended_early_is_continued(installed, renew):
    before = await stored(installed)
    await renew()
    trusted = await stored(installed)
    old = {key: encoded(text) for key, text in before[AGENTS].items()}
    await installed.merge(f"{SECRETS}/{AGENTS}", {"data": old})
    _, out, _ = await renew()
    assert out.count("added the new CA") == 1
    assert await stored(installed) == trusted
    await renew("--yes")
    replaced = await stored(installed)
    old = {key: encoded(text) for key, text in trusted[EXTENDER].items()}
    await installed.merge(f"{SECRETS}/{EXTENDER}", {"data": old})
    _, out, _ = await renew("--yes")
    assert out.count("replaced tls.crt") == 1
    assert await stored(installed) == replaced


class Answering:
    """A terminal whose user changes a secret before answering yes."""

    def __init__(self, change):
        self._change = change

    def isatty(self):
        return True

    def readline(self):
        self._change()
        return "y\n"


async def test_change_by_others_meanwhile_is_not_lost(installed, renew, monkeypatch):
    await renew()
    loop = asyncio.get_running_loop()

    def change():
        labels = {"metadata": {"labels": {"team": "a"}}}
        written = installed.merge(f"{SECRETS}/{EXTENDER}", labels)
        asyncio.run_coroutine_threadsafe(written, loop).result(PATIENCE)

    monkeypatch.setattr("sys.stdin", Answering(change))
    status, _, err = await renew()
    assert status == 1
    assert "Continue?" in err
    monkeypatch.setattr("sys.stdin", Answering(lambda: None))
    status, out, _ = await renew()
    assert (status, out.count("replaced tls.crt")) == (0, 3)
    assert (await installed.get(f"{SECRETS}/{EXTENDER}"))["metadata"]["labels"] == {"team": "a"}


async def refused(installed, renew, *flags):
    """Run the command, which changes nothing; return why."""
    before = await stored(installed)
    status, out, err = await renew(*flags)
    assert (status, out) == (1, "")
    assert await stored(installed) == before
    return err


async def test_secret_of_cert_manager_is_refused(installed, renew, folder):
    annotations = {"cert-manager.io/certificate-name": "plimsoll-agents"}
    await installed.merge(f"{SECRETS}/{AGENTS}", {"metadata": {"annotations": annotations}})
    assert f"Secret {AGENTS} belongs to cert-manager" in await refused(installed, renew)
    assert not folder.exists()


async def test_secret_of_another_ca_is_refused(installed, renew, folder, tmp_path):
    other = secret(AGENTS, CertificateAuthority(tmp_path / "other"))
    await installed.merge(f"{SECRETS}/{AGENTS}", {"data": other["data"]})
    assert f"no CA in its ca.crt signed tls.crt of Secret {AGENTS}" in await refused(installed, renew)  # fmt: skip
    assert not folder.exists()


@pytest.mark.parametrize("key", ["ca.crt", "tls.crt"])
async def test_unreadable_certificate_is_refused(installed, renew, key):
    await installed.merge(f"{SECRETS}/{AGENTS}", {"data": {key: encoded(b"\xff nothing")}})
    assert f"Secret {AGENTS}" in await refused(installed, renew)


async def test_missing_secret_is_refused(installed, renew):
    await installed.delete(f"{SECRETS}/{AGENTS}")
    status, _, err = await renew()
    assert status == 1
    assert f"there is no Secret plimsoll/{AGENTS}" in err


async def test_folder_with_other_files_is_refused_and_kept(installed, renew, folder):
    folder.mkdir()
    (folder / "ca.key").write_text("mine")
    assert "see ca.key; name an empty folder" in await refused(installed, renew)
    assert (folder / "ca.key").read_text() == "mine"


async def test_empty_folder_is_used(renew, folder):
    folder.mkdir()
    assert (await renew())[0] == 0
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


async def test_expired_certificates_are_refused(installed, renew, folder, authority):
    await renew()
    common_name, san, usage = ISSUED[EXTENDER]
    pair = authority.issue(common_name, san=san, usage=usage, days=-1)
    shutil.copy(pair.cert, folder / "extender.crt")
    shutil.copy(pair.key, folder / "extender.key")
    shutil.copy(authority.file, folder / "ca.crt")
    err = await refused(installed, renew, "--yes")
    assert "extender.crt cannot be used" in err
    assert "expired" in err


async def test_folder_with_both_cas_is_refused(installed, renew, folder, authority):
    await renew()
    with (folder / "ca.crt").open("a") as file:
        file.write(authority.file.read_text())
    assert "ca.crt has several CAs" in await refused(installed, renew, "--yes")


async def test_file_that_is_not_text_is_refused(installed, renew, folder):
    await renew()
    (folder / "agents.crt").write_bytes(b"\xff")
    assert "agents.crt cannot be used" in await refused(installed, renew, "--yes")


async def test_certificate_for_another_name_is_refused(installed, renew, folder):
    await renew()
    shutil.copy(folder / "agents.crt", folder / "extender.crt")
    shutil.copy(folder / "agents.key", folder / "extender.key")
    assert "extender.crt is for" in await refused(installed, renew, "--yes")


async def test_key_of_another_certificate_is_refused(installed, renew, folder):
    await renew()
    shutil.copy(folder / "agents.key", folder / "extender.key")
    assert "extender.crt cannot be used" in await refused(installed, renew, "--yes")


async def test_missing_key_is_refused_before_the_certificates_are_replaced(installed, renew, folder):  # fmt: skip
    await renew()
    (folder / "scheduler.key").unlink()
    assert "keys are missing" in await refused(installed, renew, "--yes")


async def test_ca_bundles_of_api_services_change_with_the_secrets(installed, renew, authority):
    """kube-apiserver trusts both CAs before the certificate is replaced; bundles for another Service stay."""
    bundle = encoded(authority.file.read_bytes())
    for version, service in (("v1beta1", "prometheus-adapter"), ("v1beta2", "plimsoll-evaluator")):
        spec = {
            "group": "custom.metrics.k8s.io",
            "version": version,
            "service": {"namespace": "plimsoll", "name": service},
            "caBundle": bundle,
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
        }
        body = {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": f"{version}.custom.metrics.k8s.io"},
            "spec": spec,
        }
        await installed.call("POST", APISERVICES, body)
    for flags in ((), ("--yes",), ("--yes",)):
        await renew(*flags)
        other, ours = [
            (await installed.get(f"{APISERVICES}/{version}.custom.metrics.k8s.io"))["spec"]
            for version in ("v1beta1", "v1beta2")
        ]
        assert other["caBundle"] == bundle
        trusted = (await stored(installed))[EXTENDER]["ca.crt"]
        assert base64.b64decode(ours["caBundle"]) == trusted
