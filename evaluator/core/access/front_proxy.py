"""The front proxy of the API server: its CA and headers, as published in a ConfigMap and reloaded when it changes.

An aggregated API server believes the user in the headers of a request only if the client's certificate is the front proxy's.
"""

import ssl
import time
from collections.abc import Callable, Iterator
from functools import lru_cache

import msgspec

from evaluator.core.access import request_header
from evaluator.core.access.request_header import RequestHeaderConfig, RequestHeaderError
from evaluator.core.access.user import User
from evaluator.core.kube.resources import APIResource
from plimsoll import logs
from plimsoll.http.tls import common_name
from plimsoll.http.types import Request

log = logs.get(__name__)

CONFIG_MAP = APIResource(
    "extension-apiserver-authentication",
    "/api/v1/namespaces/kube-system/configmaps",
    field_selector="metadata.name=extension-apiserver-authentication",
)
"""Readable with the Role extension-apiserver-authentication-reader of kube-system."""


class ConfigMap(msgspec.Struct):
    """The data of a ConfigMap."""

    data: dict[str, str] | None = None


decode = msgspec.json.Decoder(ConfigMap).decode


class FrontProxy:
    """Authenticates requests of the front proxy. Fed by a reflector of CONFIG_MAP.

    `listeners` are called when the CA changed: connections whose certificate the previous CA signed should end.
    """

    def __init__(self) -> None:
        self.synced = False
        """Whether the ConfigMap was read, or is known not to exist."""
        self.config: RequestHeaderConfig | None = None
        self.listeners: list[Callable[[], None]] = []

    def client_ca(self) -> str:
        """Return the CA of the front proxy's certificate in PEM; empty if there is none."""
        return self.config.client_ca if self.config else ""

    def replacing(self, objects: list[ConfigMap]) -> Iterator[None]:
        """Read the ConfigMap, or that it does not exist."""
        if objects:
            self.put(objects[0])
        else:
            self._load({})
        yield

    def put(self, obj: ConfigMap) -> None:
        """Read a changed ConfigMap; if it is unusable, the previous configuration stays."""
        try:
            self._load(obj.data or {})
        except RequestHeaderError as error:
            log.warning(
                "front proxy configuration not loaded, using the previous one", error=str(error)
            )

    def drop(self, _obj: ConfigMap) -> None:
        """Apply the deletion of the ConfigMap: without it, no client counts as the front proxy."""
        self._load({})

    def _load(self, data: dict[str, str]) -> None:
        found, before = request_header.parse(data), self.client_ca()
        if found is not None and (reason := _unusable(found.client_ca)):
            raise RequestHeaderError(f"requestheader-client-ca-file has no usable CA: {reason}")
        if found is None:
            log.warning(
                "the API server publishes no front proxy: requests through it are not authenticated",
                missing="requestheader-client-ca-file in kube-system/extension-apiserver-authentication",
            )
        self.config, self.synced = found, True
        if self.client_ca() != before:
            log.info("front proxy CA loaded", allowed_names=found.allowed_names if found else ())
            for listener in self.listeners:
                listener()

    def user_of(self, request: Request) -> User | None:
        """Return the user that the front proxy names; None if the request is not the front proxy's or names none.

        Raises RequestHeaderError for headers that cannot be read.
        """
        config, certificate = self.config, request.peer.certificate
        if config is None or certificate is None or _expiry(certificate["notAfter"]) < time.time():
            return None
        if not config.allows(common_name(certificate)):
            raise RequestHeaderError(
                f"the client certificate is for {common_name(certificate)!r}, which requestheader-allowed-names does not list"
            )
        return config.user(request)


def _unusable(client_ca: str) -> str:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(cadata=client_ca)
    except (ssl.SSLError, ValueError) as error:
        return str(error)
    return ""


@lru_cache(maxsize=64)
def _expiry(not_after: str) -> int:
    return ssl.cert_time_to_seconds(not_after)
