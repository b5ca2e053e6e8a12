"""APIServices: which Service answers for a version of an API group."""

import base64
import binascii
from typing import Any

from sandbox.apiserver.errors import Cause, invalid_value
from sandbox.apiserver.kinds.behaviour import Behaviour, fill
from sandbox.apiserver.storage.objects import Json, dig, name_of

COLLECTION = "apiservices.apiregistration.k8s.io"


class APIServices(Behaviour):
    """An APIService is named after its version and group; its Service listens on port 443 by default."""

    has_status = True

    def default(self, obj: Json) -> None:
        if (service := dig(obj, "spec", "service")) is not None:
            fill(service, port=443)

    def validate(self, obj: Json) -> list[Cause]:
        spec = obj.get("spec") or {}
        name = f"{spec.get('version', '')}.{spec.get('group', '')}"
        causes = []
        if name_of(obj) != name:
            causes.append(
                invalid_value(
                    "metadata.name",
                    name_of(obj),
                    f'must be `spec.version+"."+spec.group`: {name!r}',
                )
            )
        if (service := spec.get("service")) is None:
            causes.append(
                invalid_value("spec.service", service, "this sandbox serves no local APIServices")
            )
        else:
            causes += [
                invalid_value(f"spec.service.{field}", service.get(field), "required")
                for field in ("name", "namespace")
                if not service.get(field)
            ]
        causes += _trust(spec)
        return causes


def _trust(spec: Json) -> list[Cause]:
    bundle: Any = spec.get("caBundle")
    if bundle and spec.get("insecureSkipTLSVerify"):
        why = "may not be true if caBundle is present"
        return [invalid_value("spec.insecureSkipTLSVerify", True, why)]
    try:
        base64.b64decode(bundle or "", validate=True)
    except (binascii.Error, TypeError, ValueError):
        return [invalid_value("spec.caBundle", bundle, "unable to load root certificates")]
    return []
