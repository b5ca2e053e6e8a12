"""Certificates made by hand are renewed on a real API server, with the webhook's CA."""

import base64
import json
import re
import subprocess
import sys

import pytest

from tests.deploy.conftest import BY_HAND

pytestmark = pytest.mark.e2e
CA = "jsonpath={.data.ca\\.crt}"
BLOCK = re.compile(r"<!-- tested: tests/deploy/test_install.py -->\n```sh\n(.*?)```", re.DOTALL)


@pytest.fixture
def installed(made, run):
    """Apply the secrets as the README says, and the webhook with their CA."""
    (block,) = BLOCK.findall((BY_HAND / "README.md").read_text())
    commands = block.replace("kubectl apply", "kubectl apply --validate=ignore")
    run("bash", "-euc", f"cd {made}; {commands}")
    run("kubectl", "apply", "--validate=ignore", "-k", "deploy/gangs/webhook")
    bundle = run("kubectl", "-n", "plimsoll", "get", "secret", "plimsoll-extender-tls", "-o", CA)
    path = "/webhooks/0/clientConfig/caBundle"
    patch = json.dumps([{"op": "add", "path": path, "value": bundle}])
    webhook = ("mutatingwebhookconfiguration", "plimsoll-gangs")
    run("kubectl", "patch", *webhook, "--type=json", "-p", patch)


@pytest.fixture
def copy(run, tmp_path):
    """Run the commands that the command prints for a control plane node; return the copied files."""
    node = tmp_path / "node"
    node.mkdir()
    crictl = node / "crictl"
    crictl.write_text("#!/bin/sh\necho scheduler-id $* >> restarts\necho scheduler-id\n")
    crictl.chmod(0o755)

    def pasted(out):
        (block,) = re.findall(r"^  \(set .+?\n\n", out, re.DOTALL | re.MULTILINE)
        block = block.replace("/etc/kubernetes/plimsoll", str(node))
        run("bash", "-c", f"PATH={node}:$PATH\n{block}")
        assert (node / "restarts").read_text().endswith("stop scheduler-id\n")
        files = {key: node / key for key in ("ca.crt", "tls.crt", "tls.key")}
        assert {path.stat().st_mode & 0o777 for path in files.values()} == {0o600}
        return {key: path.read_bytes() for key, path in files.items()}

    return pasted


def secret(run, name):
    found = json.loads(run("kubectl", "-n", "plimsoll", "get", "secret", name, "-o", "json"))
    return {key: base64.b64decode(text) for key, text in found["data"].items()}


def test_by_hand_certificates_and_the_ca_of_the_webhook_are_renewed(installed, run, copy, tmp_path):
    folder = tmp_path / "new"
    renew = (sys.executable, "-P", "-m", "plimsoll", "renew-certificates", str(folder))
    webhook = ("mutatingwebhookconfiguration", "plimsoll-gangs")
    bundle = "jsonpath={.webhooks[0].clientConfig.caBundle}"
    for flags, printed in (
        ((), "MutatingWebhookConfiguration plimsoll-gangs: added the new CA"),
        (("--yes",), "Secret plimsoll-scheduler-client: replaced tls.crt and tls.key"),
        (("--yes",), "MutatingWebhookConfiguration plimsoll-gangs: removed the old CA"),
    ):
        out = run(*renew, *flags)
        assert printed in out
        copied = copy(out)
        assert copied == secret(run, "plimsoll-scheduler-client")
        ca = run("kubectl", "-n", "plimsoll", "get", "secret", "plimsoll-extender-tls", "-o", CA)
        assert run("kubectl", "get", *webhook, "-o", bundle) == ca
    verify = ("openssl", "verify", "-CAfile", str(folder / "ca.crt"), str(folder / "extender.crt"))
    assert subprocess.run(verify, capture_output=True, check=False).returncode == 0
    run("kubectl", "patch", *webhook, "--type=merge", "-p", '{"webhooks": null}')
    assert "nothing to do" in run(*renew)
