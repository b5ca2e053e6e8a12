"""The Kubernetes client is imported without its synchronous half."""

import subprocess
import sys

import pytest


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_synchronous_client_is_not_imported() -> None:
    loaded = run("import sys, evaluator.kubeapi.connection; print(*sys.modules)").split()
    assert "kubernetes.aio.client.api_client" in loaded
    assert {"requests", "urllib3", "oauthlib", "kubernetes.client", "websocket"}.isdisjoint(loaded)


@pytest.mark.parametrize(
    "use",
    [
        "from kubernetes import client; client.CoreV1Api",
        "import kubernetes; kubernetes.client.CoreV1Api",
        "import kubernetes.aio.watch; kubernetes.aio.watch.Watch",
        "import kubernetes; assert not hasattr(kubernetes, 'nothing')",
    ],
)
def test_other_code_can_use_the_whole_client(use) -> None:
    """Scorers of other distributions run in the same process."""
    run(f"import evaluator.kubeapi.connection; {use}")
