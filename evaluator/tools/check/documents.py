"""The objects of a manifest file: YAML with several documents, or JSON. Lists of objects are flattened."""

from collections.abc import Iterator

from plimsoll import strictyaml


def objects(text: str) -> Iterator[object]:
    """Yield every object of a text, including items of lists; skip empty documents. Raises `strictyaml.MalformedError`."""
    for document in strictyaml.load_all_json(text, allow_nan=True):
        yield from _flattened(document)


def recorded(document: object) -> frozenset[str]:
    """Return the series that a file of recording rules records; empty for other documents."""
    groups = document.get("groups") if isinstance(document, dict) else None
    rules = (
        rule
        for group in (groups if isinstance(groups, list) else ())
        if isinstance(group, dict) and isinstance(group.get("rules"), list)
        for rule in group["rules"]
        if isinstance(rule, dict)
    )
    return frozenset(name for rule in rules if isinstance(name := rule.get("record"), str))


def _flattened(document: object) -> Iterator[object]:
    """Yield an object, or the items of a list as `kubectl get -o yaml` prints it."""
    items = document.get("items") if isinstance(document, dict) else None
    if isinstance(items, list):
        for item in items:
            yield from _flattened(item)
    elif document is not None:
        yield document
