"""A served resource: names, collection and behaviour."""

from collections.abc import Callable
from dataclasses import dataclass

from sandbox.apiserver.errors import Subject
from sandbox.apiserver.kinds.behaviour import PLAIN, Behaviour
from sandbox.apiserver.kinds.topology import BUILT_IN, Topology
from sandbox.apiserver.storage.objects import Json

VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True)
class Conversion:
    """Conversion between a version and the stored version."""

    collection: str
    to_stored: Callable[[Json], Json]
    from_stored: Callable[[Json], Json]


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource in one version."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    """Fields that a field selector supports, besides metadata.name and metadata.namespace."""
    behaviour: Behaviour = PLAIN
    topology: Topology = BUILT_IN
    conversion: Conversion | None = None
    singular: str = ""
    list_kind: str = ""
    schema: Json | None = None
    printer_columns: tuple[Json, ...] = ()

    @property
    def api_version(self) -> str:
        """Return `v1` or `apps/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def collection(self) -> str:
        """Return the store's collection: `pods`, `deployments.apps`."""
        if self.conversion:
            return self.conversion.collection
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def is_custom(self) -> bool:
        """Return whether a CRD defines it."""
        return self.schema is not None

    @property
    def selectable(self) -> tuple[str, ...]:
        """Return the fields that a field selector supports."""
        return ("metadata.name", "metadata.namespace", *self.fields)

    def subject(self, name: str = "") -> Subject:
        """Return the subject of errors about one of its objects."""
        return Subject(self.group, self.plural, name, self.kind)

    def to_stored(self, obj: Json) -> Json:
        """Convert an object of this version to the stored version."""
        return self.conversion.to_stored(obj) if self.conversion else obj

    def from_stored(self, obj: Json) -> Json:
        """Convert a stored object to this version."""
        return self.conversion.from_stored(obj) if self.conversion else obj
