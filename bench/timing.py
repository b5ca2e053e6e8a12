"""Times work in this process: wall-clock and CPU time of a call, CPU time of a part, and of each callback of an event loop."""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from bench.measure import percentile
from plimsoll.http.pieces import Paced

_T = TypeVar("_T")


class Elapsed(NamedTuple):
    """Wall-clock time and CPU time of a call, in seconds."""

    clock: float
    cpu: float


def timed(work: Callable[..., _T], *arguments: object) -> tuple[_T, Elapsed]:
    """Call `work`; return its result and the time that it takes."""
    clock, cpu = time.perf_counter(), time.thread_time()
    result = work(*arguments)
    return result, Elapsed(time.perf_counter() - clock, time.thread_time() - cpu)


def figures(times: Sequence[Elapsed], digits: int, **shares: float) -> dict[str, float]:
    """Return medians in milliseconds, further percentiles of the wall-clock time by name, and the number of times."""
    clock, cpu = ([1e3 * seconds for seconds in each] for each in zip(*times, strict=True))
    found = {name: percentile(clock, share) for name, share in {"p50_ms": 0.5, **shares}.items()}
    found["cpu_p50_ms"] = percentile(cpu, 0.5)
    return {name: round(value, digits) for name, value in found.items()} | {"runs": len(times)}


class CpuTime(Paced):
    """The CPU time of one part of the work, which other work interrupts, in seconds."""

    def steps(self, work: Iterator[None]) -> Iterator[None]:
        """Run the steps of a generator."""
        while True:
            begun = time.thread_time()
            try:
                next(work)
            except StopIteration:
                return
            finally:
                self.seconds += time.thread_time() - begun
            yield


class CallbackTimes:
    """The CPU time of every callback of an event loop, in seconds."""

    def __init__(self) -> None:
        self.taken: list[float] = []

    def watch(self) -> None:
        """Start timing."""
        handle: Any = asyncio.Handle
        run = handle._run  # noqa: SLF001 (the loop has no hook for it)

        def timed_run(callback: asyncio.Handle) -> None:
            begun = time.thread_time()
            run(callback)
            self.taken.append(time.thread_time() - begun)

        handle._run = timed_run  # noqa: SLF001

    async def begin(self) -> None:
        """Forget earlier callbacks; the one that calls it is not counted."""
        await asyncio.sleep(0)
        self.taken.clear()
