"""Distribution of tests to worker processes, and what makes workers start and collect fast: hooks of tests/conftest.py."""

import contextlib
import gc
from collections.abc import Iterator
from importlib import import_module
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

from tests import preloaded

_SHARING = ("tests/agent/rules/prometheus/", "tests/browser/")
"""Folders whose files share a server or a browser, and so one worker."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mix the files that start processes, and wait for them much of the time, with those that only compute.

    The former end a little earlier: the longest are among them, and one at the end would keep other workers idle.
    """
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    waiting = [file for file in files.values() if file[0].get_closest_marker("e2e")]
    computing = [file for file in files.values() if not file[0].get_closest_marker("e2e")]
    places = [(0.9 * place / len(waiting), file) for place, file in enumerate(waiting)]
    places += [(place / len(computing), file) for place, file in enumerate(computing)]
    places.sort(key=itemgetter(0))
    items[:] = chain.from_iterable(file for _, file in places)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Collect no garbage meanwhile, exclude the collected tests from later collections, and collect less often.

    The tests live until the end.
    """
    gc.disable()
    try:
        _compile_share(session.config)
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(10_000)
        gc.enable()


def pytest_sessionstart(session: pytest.Session) -> None:
    """Let all workers fork the same processes: each would otherwise import the programs into processes of its own."""
    if worker := getattr(session.config, "workerinput", None):
        preloaded.shared = Path(worker["preloaded"])


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker which processes it forks."""
    if not _folder:
        _folder.append(preloaded.start_servers(*preloaded.PROGRAMS))
    node.workerinput["preloaded"] = str(_folder[0])


_folder: list[Path] = []
"""The sockets of the processes to fork, in the process that controls the workers."""


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling:
    return _Scheduler(config, log)


class _Scheduler(LoadFileScheduling):
    """Sends all tests of a file to the same worker, and all files of a folder of `_SHARING`."""

    def _split_scope(self, nodeid: str) -> str:
        file = str(super()._split_scope(nodeid))
        return next((folder for folder in _SHARING if file.startswith(folder)), file)


def _compile_share(config: pytest.Config) -> None:
    """Import a share of the test modules first, which writes their bytecode for the other workers.

    In a new checkout, each worker would otherwise compile every module: twice the time of reading the bytecode.
    """
    if (worker := getattr(config, "workerinput", None)) is None:
        return
    number, count = int(worker["workerid"].removeprefix("gw")), worker["workercount"]
    for path in sorted(Path(__file__).parent.rglob("test_*.py"))[number::count]:
        name = ".".join(path.relative_to(config.rootpath).with_suffix("").parts)
        with contextlib.suppress(Exception, pytest.skip.Exception):  # the collection reports it
            import_module(name)
