"""Flags of the pages."""

from dataclasses import dataclass

from evaluator.core.options import FeatureOptions
from plimsoll.flags import option


@dataclass(frozen=True, kw_only=True)
class PageOptions(FeatureOptions):
    """The pages of the operations port."""

    explain: bool = option(
        "explain",
        True,
        "serve pages for a browser, and /explain as JSON, on the ops port, to any client that can reach it: policies with the readings of all nodes, and why "
        "pods wait",
    )
