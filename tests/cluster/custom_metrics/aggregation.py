"""The registration of the evaluator at the aggregation layer of an API server."""

import asyncio
import base64
import contextlib
import ssl

import aiohttp

from sandbox.apiserver.server import ApiServer
from sandbox.client.client import ApiError
from sandbox.client.objects import ObjectKind
from sandbox.envtest import ControlPlane
from sandbox.pki import CertificateAuthority
from sandbox.processes import HeldPort

SERVICES = ObjectKind("services")
API_SERVICES = ObjectKind("apiservices", "apiregistration.k8s.io/v1", namespaced=False)
GROUP = "custom.metrics.k8s.io"
VERSIONS = ("v1beta1", "v1beta2")


class Balancer:
    """A stand-in for kube-proxy: each new connection goes to the next replica that accepts it."""

    def __init__(self, *ports):
        self._ports = [*ports]
        self._server = None
        self._relays = set()
        self.port = 0

    async def start(self):
        self._server = await asyncio.start_server(self._relay, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self):
        self._server.close()
        for relay in self._relays:
            relay.cancel()
        await asyncio.gather(*self._relays, return_exceptions=True)
        await self._server.wait_closed()

    async def _relay(self, reader, writer):
        task, ends = asyncio.current_task(), [writer]
        self._relays.add(task)
        self._ports.append(self._ports.pop(0))
        try:
            for port in tuple(self._ports):  # other connections change the order meanwhile
                with contextlib.suppress(OSError):
                    onward = await asyncio.open_connection("127.0.0.1", port)
                    break
            else:
                writer.transport.abort()
                return
            ends.append(onward[1])
            await asyncio.gather(_copy(reader, onward[1]), _copy(onward[0], writer))
        except asyncio.CancelledError:
            for end in ends:
                end.transport.abort()
            raise
        finally:
            self._relays.discard(task)


async def _copy(reader, writer):
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    with contextlib.suppress(OSError):
        writer.close()


class Api:
    """The registered API: its certificate, its port, and requests to it through the API server."""

    def __init__(self, world, folder):
        self.world = world
        self.name = "metrics"
        self.ca = CertificateAuthority(folder / "serving")
        self.pair = self.ca.issue("metrics", san=f"DNS:{self.name}.{world.namespace}.svc")
        self.port = HeldPort()
        self._front_proxies = folder / "front-proxies"

    def flags(self, port=None):
        cert, key = self.pair
        number = port or self.port.number
        return (f"--customMetricsPort={number}", f"--cert={cert}", f"--key={key}")

    def rotate(self, name):
        """Give the API server's front proxy a certificate of a new CA, and return it."""
        if isinstance(self.world.plane.server, ControlPlane):
            return self.world.plane.server.rotate_front_proxy(name)
        ca = CertificateAuthority(self._front_proxies / name, name)
        pair = ca.issue("front-proxy-client")
        self.world.plane.server.use_front_proxy(ca.file, pair)
        return pair

    async def register(self, port=None, ca=None):
        """Create Service and APIServices whose requests reach a port of this machine; `ca`: another CA to trust."""
        number = port or self.port.number
        bundle = (ca or self.ca).file.read_bytes()
        meta = {"name": self.name, "namespace": self.world.namespace}
        spec = {
            "type": "ExternalName",
            "externalName": "localhost",
            "ports": [{"port": number, "name": "https"}],
        }
        service = {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec}
        await self.world.client.create(SERVICES, service)
        if isinstance(self.world.plane.server, ApiServer):
            url = f"https://127.0.0.1:{number}"
            self.world.plane.server.serve_as(self.world.namespace, self.name, "https", url)
        for priority, version in enumerate(VERSIONS, 1):
            spec = {
                "group": GROUP,
                "version": version,
                "service": {**meta, "port": number},
                "caBundle": base64.b64encode(bundle).decode(),
                "groupPriorityMinimum": 100,
                "versionPriority": 100 * priority,
            }
            await self.world.client.create(
                API_SERVICES,
                {
                    "apiVersion": API_SERVICES.api_version,
                    "kind": "APIService",
                    "metadata": {"name": f"{version}.{GROUP}"},
                    "spec": spec,
                },
            )

    async def unregister(self):
        for version in VERSIONS:
            with contextlib.suppress(ApiError):
                await self.world.client.delete(API_SERVICES, f"{version}.{GROUP}")

    async def condition(self, status="True"):
        """Wait until both versions have this status of Available; return the last message."""
        message = ""
        for version in VERSIONS:

            async def agrees(name=f"{version}.{GROUP}"):
                found = (await self.world.client.get(API_SERVICES, name)).get("status") or {}
                for one in found.get("conditions") or ():
                    if one["type"] == "Available" and one["status"] == status:
                        return one["message"]
                return None

            try:
                message = await self.world.eventually(agrees)
            except TimeoutError:
                found = await self.world.client.get(API_SERVICES, f"{version}.{GROUP}")
                log = self.world.evaluator.log()
                raise AssertionError(f"{found.get('status')}{log}") from None
        return message

    async def get(self, path, version="v1beta2"):
        return await self.world.client.request("GET", f"/apis/{GROUP}/{version}{path}")

    async def ask(self, path, *, headers, pair=None, port=None):
        """The status of a request to the evaluator's own port, with an optional client certificate."""
        context = ssl.create_default_context(cafile=self.ca.file)
        if pair:
            context.load_cert_chain(*pair)
        name = f"{self.name}.{self.world.namespace}.svc"
        async with (
            aiohttp.ClientSession() as session,
            session.get(
                f"https://127.0.0.1:{port or self.port.number}/apis/{GROUP}/v1beta2{path}",
                headers=headers,
                ssl=context,
                server_hostname=name,
            ) as response,
        ):
            return response.status

    async def values(self, path, **more):
        """Object -> value of a list of metrics, once it can be had."""

        async def answered():
            try:
                items = (await self.get(path, **more))["items"]
            except ApiError:
                return None
            return {item["describedObject"]["name"]: item["value"] for item in items}

        return await self.world.eventually(answered)
