"""One served resource: its names, where its objects are kept, and how they behave."""

from collections.abc import Callable
from dataclasses import dataclass

from sandbox.apiserver.errors import Subject
from sandbox.apiserver.kinds.behaviour import PLAIN, Behaviour
from sandbox.apiserver.storage.objects import Json
from sandbox.apiserver.writes.topology import BUILT_IN, Topology

VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True)
class Conversion:
    """How a resource's objects are kept in another version's form."""

    collection: str
    absorb: Callable[[Json], Json]
    present: Callable[[Json], Json]


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
    """What a field selector may name, beside the object's name and namespace."""
    behaviour: Behaviour = PLAIN
    topology: Topology = BUILT_IN
    conversion: Conversion | None = None
    singular: str = ""
    list_kind: str = ""
    schema: Json | None = None
    printer_columns: tuple[Json, ...] = ()

    @property
    def api_version(self) -> str:
        """`v1`, `apps/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def collection(self) -> str:
        """Where the store keeps its objects: `pods`, `deployments.apps`."""
        if self.conversion:
            return self.conversion.collection
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def is_custom(self) -> bool:
        """Whether a CRD defines it."""
        return self.schema is not None

    @property
    def selectable(self) -> tuple[str, ...]:
        """What a field selector may name."""
        return ("metadata.name", "metadata.namespace", *self.fields)

    def subject(self, name: str = "") -> Subject:
        """What an error about one of its objects names."""
        return Subject(self.group, self.plural, name, self.kind)

    def absorb(self, obj: Json) -> Json:
        """An object of this version as it is kept."""
        return self.conversion.absorb(obj) if self.conversion else obj

    def present(self, obj: Json) -> Json:
        """A kept object as this version shows it."""
        return self.conversion.present(obj) if self.conversion else obj
