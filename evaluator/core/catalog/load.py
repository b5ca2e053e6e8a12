"""Loads the catalog from the file beside this module."""

from functools import cache
from importlib import resources

from evaluator.core.catalog.catalog import Catalog, CatalogEntry


@cache
def shipped() -> Catalog:
    """Return the catalog of shipped metrics; reads its file once."""
    text = resources.files("evaluator.core.catalog").joinpath("metrics.tsv").read_text("utf-8")
    rows = (line.split("\t") for line in text.splitlines() if not line.startswith("#"))
    return Catalog(
        CatalogEntry(
            name,
            kind,
            unit,
            tuple(filter(None, labels.split(","))),
            origin,
            float(*(window or ["0"])),
        )
        for name, kind, unit, labels, origin, *window in rows
    )
