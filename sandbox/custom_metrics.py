"""The custom metrics API of a sandbox: certificates, and the objects that send its requests to the evaluator."""

import base64
from pathlib import Path

from sandbox import manifests
from sandbox.apiserver.server import ApiServer
from sandbox.client.client import Client, ensure
from sandbox.client.objects import NAMESPACES, Object, ObjectKind
from sandbox.pki import CertificateAuthority

_SERVICES = ObjectKind("services")
_API_SERVICES = ObjectKind("apiservices", "apiregistration.k8s.io/v1", namespaced=False)
_PORT = "custom-metrics"


class CustomMetricsRoute:
    """The route from the API server to the evaluator's port, with certificates made in a folder; needs openssl."""

    def __init__(self, folder: Path, port: int) -> None:
        self._port = port
        self._front_proxy = CertificateAuthority(folder, "front-proxy-ca")
        self._client = self._front_proxy.issue("front-proxy-client", usage="clientAuth")
        self._ca = CertificateAuthority(folder, "plimsoll-ca")
        (self._service, *_) = (obj["spec"]["service"] for obj in _api_services())
        name = f"{self._service['name']}.{self._service['namespace']}.svc"
        self._server = self._ca.issue(self._service["name"], san=f"DNS:{name}")

    @property
    def flags(self) -> tuple[str, ...]:
        """The evaluator's flags."""
        cert, key = self._server
        return (f"--customMetricsPort={self._port}", f"--cert={cert}", f"--key={key}")

    async def open(self, api: ApiServer, client: Client) -> None:
        """Create the objects, and let the API server forward requests as the front proxy."""
        namespace, name = self._service["namespace"], self._service["name"]
        api.use_front_proxy(self._front_proxy.file, self._client)
        api.serve_as(namespace, name, _PORT, f"https://127.0.0.1:{self._port}")
        meta = {"name": namespace}
        await ensure(
            client, NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}
        )
        ports = [{"name": _PORT, "port": self._service["port"]}]
        meta = {"name": name, "namespace": namespace}
        service = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": meta,
            "spec": {"ports": ports},
        }
        await ensure(client, _SERVICES, service)
        for obj in _api_services():
            obj["spec"]["caBundle"] = base64.b64encode(self._ca.file.read_bytes()).decode()
            await ensure(client, _API_SERVICES, obj)


def _api_services() -> list[Object]:
    """Return the APIServices of the component that serves the API."""
    folder = manifests.folder() / "components" / "serve-custom-metrics"
    return list(manifests.load(folder / "apiservices.yaml"))
