"""Objects in the JSON of pages, and the fields that features add to objects of others.

`docs/pages.schema.json` and the types of the Headlamp plugin are generated from these types (docs/page_schema.py).
"""

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Annotated, Any, ClassVar, TypeVar, Union, cast

from msgspec import NODEFAULT, UNSET, Meta, Struct, UnsetType, defstruct, structs

T = TypeVar("T")
F = TypeVar("F", bound="Fields")

WRITTEN_LATER = "x-writtenLater"
Maybe = Union[T, UnsetType]  # noqa: UP007 (an alias with a type variable)
"""The type of a field that some objects lack: UNSET."""
Number = float | str | None
"""The type of a reading. Infinities are text; null: unknown."""
Entries = Annotated[Union[T, UnsetType], Meta(extra_json_schema={WRITTEN_LATER: True})]  # noqa: UP007
"""The type of an object or array whose entries `Report` has, since they are made while the page is written."""


class Fields(Struct, rename="camel", kw_only=True, gc=False):
    """An object. A subclass without `kw_only` has its own fields first, as one that starts with what identifies it."""

    extended_by: ClassVar["type[Fields] | None"] = None
    """The type of the fields that features add to it."""


class EvaluatorFields(Fields):
    """Added to this replica on the overview."""


class OverviewFields(Fields):
    """Added to the overview."""


class ListedPolicyFields(Fields):
    """Added to a policy in a list of policies."""


class PolicyFields(Fields):
    """Added to the page of a policy."""


class NodeFields(Fields):
    """Added to the page of a node."""


class WrittenFields(Fields):
    """Added to what the evaluator wrote to a node."""


class PodFields(Fields):
    """Added to the page of a pod."""


class EnforcementFields(Fields):
    """Added to what enforcing an observed policy would change."""


class PodOpinion(Fields, kw_only=True):
    """How extenders beside the policies judge one node for a pod. `refused_by`: those that refuse the node."""

    refused_by: Maybe[list[str]] = UNSET


def with_fields(fields: Iterable[tuple[Any, ...]]) -> Callable[[type[F]], type[F]]:
    """Return a decorator that adds fields: names, types, and defaults if they may be missing."""

    def added(own: type[F]) -> type[F]:
        about = {"__doc__": own.__doc__, "__module__": own.__module__}
        made = defstruct(own.__name__, fields, bases=(own,), namespace=about, kw_only=True)
        return cast("type[F]", made)

    return added


@lru_cache(maxsize=256)
def extended_type(own: type[F], *added: type[Fields]) -> type[F]:
    """Return the type of an object with the fields that features add to it."""
    known = set(own.__struct_fields__)
    fields = [
        (field.name, field.type, UNSET if field.default is NODEFAULT else field.default)
        for one in added
        for field in structs.fields(one)
        if field.name not in known
    ]
    return with_fields(fields)(own)


def extended(own: F, *added: Fields | None) -> F:
    """Return an object with the fields that features add to it; those that it has too are replaced."""
    parts = [part for part in added if part is not None]
    if not parts:
        return own
    fields: dict[str, Any] = structs.asdict(own)
    for part in parts:
        fields |= {name: one for name, one in structs.asdict(part).items() if one is not UNSET}
    made: Callable[..., F] = extended_type(type(own), *map(type, parts))
    return made(**fields)
