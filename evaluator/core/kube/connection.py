"""The connection to the Kubernetes API: configuration, credentials and their refresh. The only importer of the client.

Bodies stay bytes: the client's typed models cost 8 times the time and 10 times the memory for thousands of nodes.
"""

import importlib
import os
import socket
import sys
import urllib.parse
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import aiohttp

from evaluator.core.kube.transport import KubeError, sentence
from plimsoll import strictyaml
from plimsoll.strictyaml import YAMLError
from plimsoll.text import SentenceError


class _Package(ModuleType):
    """A package that was found but not run."""

    def __getattr__(self, name: str) -> ModuleType:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return importlib.import_module(f"{self.__name__}.{name}")
        except ModuleNotFoundError as error:
            raise AttributeError(f"{self.__name__} has no module {name}") from error


def _import_lazily(*names: str) -> None:
    """Register packages, parents first; those that are imported already stay. Raises ModuleNotFoundError.

    Their modules are imported on access, in place of all at once by the package's own `__init__`: that of the Kubernetes client
    imports the synchronous client with requests, urllib3 and OAuth, which nothing here uses. With it, importing the evaluator
    takes 640 loops of CPU in place of 540 (`bench/startup.py`, aim 600), and 10 MB more.
    """
    for name in names:
        if name in sys.modules:
            continue
        if (spec := find_spec(name)) is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        package = _Package(name)
        package.__spec__ = spec
        package.__path__ = list(spec.submodule_search_locations or ())
        sys.modules[name] = package


_import_lazily("kubernetes", "kubernetes.aio")

from kubernetes.aio import client, config  # noqa: E402 (after the line above)
from kubernetes.aio.client import rest  # noqa: E402

# ConfigException: credentials could not be renewed; ValueError: they are not valid in a header.
_UNSENT = (aiohttp.ClientError, TimeoutError, OSError, ValueError, config.ConfigException)

IDLE, INTERVAL, PROBES = 10, 5, 3
"""Seconds without data until the first probe and between probes, and the unanswered probes that end a connection."""
UNACKNOWLEDGED = 25_000
"""Milliseconds after which a connection ends if the peer does not acknowledge what was sent, such as a request."""


class ConfigError(SentenceError):
    """No usable kubeconfig; the text explains what to do."""


class _Connections(rest.RESTClientObject):  # type: ignore[misc]  # the client has no types
    """The client's connections, with sockets that notice a peer which is gone."""

    def _create_connector(self) -> aiohttp.TCPConnector:
        return aiohttp.TCPConnector(
            limit=self.maxsize, ssl=self.ssl_context, socket_factory=open_socket
        )


def open_socket(address: tuple[Any, ...]) -> socket.socket:
    """Return a new socket for an entry of `socket.getaddrinfo`; reads fail with ETIMEDOUT once its peer is gone.

    The kernel detects that its machine lost power, or that a firewall dropped the connection's state. A quiet watch reads
    nothing for minutes, so a read timeout cannot detect it; TCP keepalive probes do.
    """
    family, kind, protocol, *_ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if sys.platform == "linux":
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, IDLE)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, INTERVAL)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, PROBES)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNACKNOWLEDGED)
    return made


class KubeConnection:
    """The Kubernetes client with its credentials."""

    def __init__(self, api: client.ApiClient, kubeconfig: str) -> None:
        self._api = api
        self._kubeconfig = kubeconfig

    @classmethod
    async def open(cls, kubeconfig: str) -> "KubeConnection":
        """Use a kubeconfig file if given, else the pod's service account, else ~/.kube/config.

        Nothing is sent yet. Raises ConfigError.
        """
        settings = await _settings(kubeconfig)
        try:
            api = client.ApiClient(settings)
            api.rest_client = _Connections(settings)
            return cls(api, kubeconfig)
        except Exception as error:  # certificates are only read here
            raise ConfigError(f"the kubeconfig cannot be used: {sentence(error)}") from error

    @property
    def host(self) -> str:
        """The API server's URL."""
        host: str = self._api.configuration.host
        return host

    async def token(self) -> str:
        """The Authorization header; empty for none."""
        headers: dict[str, str] = {}
        try:
            await self._api.update_params_for_auth(headers, [], ["BearerToken"], "", "", None)
        except _UNSENT as error:
            raise KubeError(0, f"no credentials: {sentence(error)}") from error
        return headers.get("authorization", "")

    async def reload(self) -> None:
        """Read the credentials again. The client itself rereads a pod's token once a minute, a kubeconfig's tokenFile never."""
        try:
            found = await _settings(self._kubeconfig)
        except ConfigError as error:
            raise KubeError(0, str(error)) from error
        own = self._api.configuration
        own.api_key = found.api_key
        own.refresh_api_key_hook = found.refresh_api_key_hook

    async def send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: object,
        *,
        timeout: aiohttp.ClientTimeout,
    ) -> aiohttp.ClientResponse:
        """Send one request; returns the response, whatever its status. Raises KubeError with status 0 without one."""
        try:
            answer = await self._api.call_api(method, url, headers, body, _request_timeout=timeout)
        except _UNSENT as error:
            path = urllib.parse.urlsplit(url).path
            raise KubeError(0, f"{method} {path}: {sentence(error)}") from error
        response: aiohttp.ClientResponse = answer.response
        return response

    async def close(self) -> None:
        """Close the connections."""
        await self._api.close()


async def _settings(kubeconfig: str) -> client.Configuration:
    settings = client.Configuration()
    settings.host = ""
    try:
        if not kubeconfig and "KUBERNETES_SERVICE_HOST" in os.environ:
            config.load_incluster_config(client_configuration=settings)
        else:
            path = _existing(kubeconfig or "~/.kube/config")
            await config.load_kube_config(path, client_configuration=settings)
    except ConfigError:
        raise
    except Exception as error:  # the loader raises anything for a malformed file
        why = strictyaml.sentence(error) if isinstance(error, YAMLError) else sentence(error)
        raise ConfigError(f"the kubeconfig cannot be used: {why}") from error
    if not settings.host:
        raise ConfigError("the kubeconfig cannot be used: its current context names no server")
    return settings


def _existing(kubeconfig: str) -> str:
    path = Path(kubeconfig).expanduser()
    if not path.is_file():
        raise ConfigError(
            f"no kubeconfig at {path}: name one with --kubeConfig, or run inside the cluster"
        )
    return str(path)


def own_namespace() -> str:
    """The namespace of this pod; `default` outside a pod."""
    file = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
    return file.read_text().strip() if file.is_file() else "default"
