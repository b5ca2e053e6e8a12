"""Packages whose modules are imported on access, in place of all at once by the package's own `__init__`.

The Kubernetes client's `__init__` imports the synchronous client with requests, urllib3 and OAuth, which nothing here uses:
a third of the time to import it, and 9 MB.
"""

import importlib
import sys
from importlib.util import find_spec
from types import ModuleType


class _Package(ModuleType):
    """A package that was found but not run."""

    def __getattr__(self, name: str) -> ModuleType:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return importlib.import_module(f"{self.__name__}.{name}")
        except ModuleNotFoundError as error:
            raise AttributeError(f"{self.__name__} has no module {name}") from error


def install(*names: str) -> None:
    """Register packages, parents first; those that are imported already stay. Raises ModuleNotFoundError."""
    for name in names:
        if name in sys.modules:
            continue
        if (spec := find_spec(name)) is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        package = _Package(name)
        package.__spec__ = spec
        package.__path__ = list(spec.submodule_search_locations or ())
        sys.modules[name] = package
