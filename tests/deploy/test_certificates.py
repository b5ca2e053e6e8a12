"""Both ways to make certificates give the same secrets; those made by hand authenticate exactly the intended clients."""

import base64
import re
import shutil
import socket
import ssl
import subprocess
import threading
from pathlib import Path

import pytest
import yaml

from evaluator.core import tls

ROOT = Path(__file__).parents[2]
BY_HAND = ROOT / "deploy" / "certificates" / "by-hand"


@pytest.fixture(scope="module")
def secrets(made):
    """Secret -> its files, as `kubectl apply -k` would create it."""
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not on PATH")
    command = ["kubectl", "kustomize", str(made)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = {obj["metadata"]["name"]: obj for obj in yaml.safe_load_all(done.stdout)}
    assert {obj["metadata"]["namespace"] for obj in found.values()} == {"plimsoll"}
    return {
        name: {file: base64.b64decode(text) for file, text in obj["data"].items()}
        for name, obj in found.items()
    }


def test_key_of_the_signer_is_deleted(made):
    assert not (made / "ca.key").exists()


def test_generated_files_cannot_be_committed(made):
    """Private keys are in a folder of the checkout."""
    patterns = (BY_HAND / ".gitignore").read_text().split()
    new = {path.name for path in made.iterdir()} - {path.name for path in BY_HAND.iterdir()}
    assert {f"*{Path(name).suffix}" for name in new} <= set(patterns)


def test_both_methods_make_the_same_secrets(secrets, built):
    issued = [obj for obj in built("certificates") if obj["kind"] == "Certificate"]
    names = {obj["spec"]["secretName"] for obj in issued} - {"plimsoll-ca"}
    assert secrets.keys() == names
    assert all(files.keys() == {"ca.crt", "tls.crt", "tls.key"} for files in secrets.values())


def test_both_methods_make_certificates_for_the_same_names(made, built):
    sections = dict(
        re.findall(r"^\[(\w+)\]\n((?:.+\n)+)", (made / "openssl.cnf").read_text(), re.MULTILINE)
    )
    for obj in built("certificates"):
        if obj["kind"] == "Certificate" and "dnsNames" in obj["spec"]:
            section = sections[obj["metadata"]["name"].removeprefix("plimsoll-")]
            assert re.findall(r"DNS:([\w.-]+)", section) == obj["spec"]["dnsNames"]


def test_workloads_mount_generated_secrets(secrets, built):
    mounted = {
        volume["secret"]["secretName"]
        for obj in built("core")
        if "template" in obj.get("spec", {})
        for volume in obj["spec"]["template"]["spec"].get("volumes", [])
        if "secret" in volume
    }
    assert mounted
    assert mounted <= secrets.keys()


def test_services_are_addressed_by_names_in_certificates(built):
    names = {
        name
        for obj in built("certificates")
        if obj["kind"] == "Certificate"
        for name in obj["spec"].get("dnsNames", [])
    }
    services = [obj["metadata"]["name"] for obj in built("core") if obj["kind"] == "Service"]
    for service in services:
        assert {service, f"{service}.plimsoll", f"{service}.plimsoll.svc"} <= names


def handshake(server, client, name):
    """Whether a client that uses a server name and a server authenticate each other over a real socket."""
    listening = socket.create_server(("127.0.0.1", 0))
    refused = []

    def serve():
        connection, _ = listening.accept()
        try:
            with server.wrap_socket(connection, server_side=True) as secured:
                secured.sendall(b"ok")
        except (ssl.SSLError, OSError) as error:
            refused.append(error)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with (
            socket.create_connection(listening.getsockname()) as plain,
            client.wrap_socket(plain, server_hostname=name) as secured,
        ):
            return secured.recv(2) == b"ok"
    except (ssl.SSLError, OSError):
        return False
    finally:
        thread.join(10)
        listening.close()


def client_context(made, who=""):
    context = ssl.create_default_context(cafile=made / "ca.crt")
    if who:
        context.load_cert_chain(made / f"{who}.crt", made / f"{who}.key")
    return context


@pytest.fixture
def extender(made):
    files = (str(made / name) for name in ("extender.crt", "extender.key", "ca.crt"))
    return tls.server_context(tls.Files(*files))


SERVICE = "plimsoll-evaluator.plimsoll.svc"


def test_scheduler_and_evaluator_trust_each_other(made, extender):
    assert handshake(extender, client_context(made, "scheduler"), SERVICE)


@pytest.mark.parametrize("who", ["", "agents", "extender"])
def test_other_clients_are_rejected_by_the_extender(made, extender, who):
    """Neither without a certificate nor with a server certificate."""
    assert not handshake(extender, client_context(made, who), SERVICE)


def test_evaluator_under_another_name_is_rejected(made, extender):
    assert not handshake(extender, client_context(made, "scheduler"), "kube-dns.kube-system.svc")


def test_agents_trust_the_agents_port(made):
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(made / "agents.crt", made / "agents.key")
    assert handshake(server, client_context(made), "plimsoll-evaluator-agents.plimsoll.svc")
