"""Makes a CA and the three secrets with certificates, unless they exist: run once by the chart's job.

Uses openssl and the API server of the pod's cluster. The CA's key is not kept.
"""

import base64
import json
import os
import ssl
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

ACCOUNT = Path(os.environ.get("ACCOUNT", "/var/run/secrets/kubernetes.io/serviceaccount"))
DAYS = "365"
SERVICES = {"extender": "plimsoll-evaluator", "agents": "plimsoll-evaluator-agents"}


def main():
    """Create the missing secrets; return the exit status."""
    secrets = json.loads(os.environ["SECRETS"])
    found = [name for name in secrets.values() if call("GET", f"/{name}") is not None]
    if found and len(found) < len(secrets):
        missing = sorted(set(secrets.values()) - set(found))
        print(
            f"{', '.join(found)} exist, {', '.join(missing)} do not: one CA must sign all. Delete the existing ones, "
            "then run helm upgrade."
        )
        return 1
    if found:
        print("all secrets exist: nothing to do")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        issue(
            "ca",
            "plimsoll-ca",
            "basicConstraints=critical,CA:TRUE,pathlen:0\nkeyUsage=critical,keyCertSign,cRLSign\n",
        )
        for which, secret in secrets.items():
            issue(which, SERVICES.get(which, "kube-scheduler"), extensions(which))
            call("POST", "", body(secret, which))
            print(f"created secret {secret}")
    return 0


def extensions(which):
    """Return the extensions of a certificate: a server's names, or use by a client."""
    text = "basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\nauthorityKeyIdentifier=keyid\n"
    if which not in SERVICES:
        return text + "extendedKeyUsage=clientAuth\n"
    service, namespace = SERVICES[which], os.environ["NAMESPACE"]
    names = [
        f"{service}{end}"
        for end in (f".{namespace}.svc", f".{namespace}.svc.cluster.local", f".{namespace}", "")
    ]
    return (
        text
        + f"extendedKeyUsage=serverAuth\nsubjectAltName={','.join(f'DNS:{name}' for name in names)}\n"
    )


def issue(which, subject, extension):
    """Write `which`.crt and `which`.key, signed by the CA unless it is the CA."""
    Path("openssl.cnf").write_text(
        f"[req]\ndistinguished_name=name\nprompt=no\n[name]\nCN={subject}\n[extensions]\nsubjectKeyIdentifier=hash\n{extension}"
    )
    command = [
        "openssl",
        "req",
        "-x509",
        "-config",
        "openssl.cnf",
        "-extensions",
        "extensions",
        "-noenc",
        "-days",
        DAYS,
    ]
    command += [
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-keyout",
        f"{which}.key",
        "-out",
        f"{which}.crt",
    ]
    if which != "ca":
        command += ["-CA", "ca.crt", "-CAkey", "ca.key"]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)


def body(secret, which):
    """Return the Secret, with the same keys as cert-manager's."""
    files = {"ca.crt": "ca.crt", "tls.crt": f"{which}.crt", "tls.key": f"{which}.key"}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/tls",
        "metadata": {"name": secret, "labels": {"app.kubernetes.io/part-of": "plimsoll"}},
        "data": {
            key: base64.b64encode(Path(file).read_bytes()).decode() for key, file in files.items()
        },
    }


def call(method, path, content=None):
    """Return the answer of the API server; None if the secret does not exist."""
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
    host = f"[{host}]" if ":" in host else host
    url = f"https://{host}:{port}/api/v1/namespaces/{os.environ['NAMESPACE']}/secrets{path}"
    token = (ACCOUNT / "token").read_text().strip()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    data = None if content is None else json.dumps(content).encode()
    request = urllib.request.Request(url, data, headers, method=method)
    trust = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
    try:
        with urllib.request.urlopen(request, timeout=30, context=trust) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        if method == "GET" and error.code == 404:
            return None
        print(f"{method} {url}: {error.code} {error.read().decode()[:300]}")
        raise SystemExit(1) from None


if __name__ == "__main__":
    sys.exit(main())
