"""The Kubernetes client is imported without its synchronous half."""

import subprocess
import sys


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_synchronous_client_is_not_imported() -> None:
    loaded = run("import sys, evaluator.core.kube.connection; print(*sys.modules)").split()
    assert "kubernetes.aio.client.api_client" in loaded
    assert {"requests", "urllib3", "oauthlib", "kubernetes.client", "websocket"}.isdisjoint(loaded)


USES = [
    "from kubernetes import client; client.CoreV1Api",
    "import kubernetes; kubernetes.client.CoreV1Api",
    "import kubernetes.aio.watch; kubernetes.aio.watch.Watch",
    "import kubernetes; assert not hasattr(kubernetes, 'nothing')",
]


def test_other_code_can_use_the_whole_client() -> None:
    """Scorers of other distributions run in the same process. Each use is in a fork of its own."""
    forks = [f"if not os.fork():\n  {use}; print({use!r}); sys.exit()\nos.wait()" for use in USES]
    code = ["import os, sys, evaluator.core.kube.connection", *forks]
    assert run("\n".join(code)).splitlines() == USES
