"""Thousands of simulated agents that use the real protocol with one evaluator, each on its own connection.

Each opens a stream, receives the subscription, reports it in full, then reports changed readings after each interval, or a
heartbeat. After a loss it reconnects like the real agent. They run in a few separate processes, so that their CPU time is
not counted as the evaluator's:

    with Fleet("127.0.0.1:9091", nodes, Habits(interval=10.0, share=0.01), authority=authority) as fleet:
        await fleet.until(connected=len(nodes))
        fleet.habits = Habits(interval=0.0, share=1.0)
        print(fleet.reports)
"""

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from types import TracebackType
from typing import Any

import grpc
import numpy as np

from bench import fleetagent
from bench.authority import Authority
from bench.fleetagent import COLUMNS, HABITS, Column, Habits
from bench.processes import FORKED


@dataclass(frozen=True, slots=True)
class Spread:
    """Distribution of a duration over all agents, in seconds."""

    p50: float
    p99: float
    longest: float

    @classmethod
    def of(cls, seconds: Any) -> "Spread":
        """Return the distribution of a numpy array; NaN if empty."""
        if not len(seconds):
            return cls(*[float("nan")] * 3)
        return cls(*(round(float(q), 4) for q in np.quantile(seconds, (0.5, 0.99, 1.0))))


class Fleet:
    """Agents of these nodes from `start()` to `stop()`, or as a context manager. Without an authority, in plain text.

    Their state is in shared memory, so reading it costs them nothing. Times are those of time.monotonic().
    """

    def __init__(
        self,
        address: str,
        nodes: Sequence[str],
        habits: Habits | None = None,
        *,
        processes: int = 2,
        authority: Authority | None = None,
    ) -> None:
        self._address = address
        self.nodes = list(nodes)
        self._count = max(1, min(processes, len(self.nodes)))
        self._authority = authority
        self._shared = FORKED.Array("d", len(self.nodes) * COLUMNS, lock=False)
        self._orders = FORKED.Array("d", HABITS, lock=False)
        self._table = np.frombuffer(self._shared).reshape(-1, COLUMNS)
        self._processes: list[ForkServerProcess] = []
        self.habits = habits or Habits()

    @property
    def habits(self) -> Habits:
        """The report interval and share of changed readings; a change applies from the next report."""
        return Habits(*self._orders[:])

    @habits.setter
    def habits(self, wanted: Habits) -> None:
        self._orders[:] = wanted

    def start(self) -> None:
        """Start connecting."""
        for number in range(self._count):
            mine = slice(number, None, self._count)
            process = FORKED.Process(
                target=fleetagent.run,
                args=(
                    self._address,
                    self.nodes,
                    mine,
                    self._shared,
                    self._orders,
                    self._authority,
                ),
                daemon=True,
            )
            process.start()
            self._processes.append(process)

    def stop(self) -> None:
        """Kill all agents."""
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.join()
        self._processes.clear()
        self._table[:, Column.CONNECTED] = 0

    def __enter__(self) -> "Fleet":
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def column(self, which: Column) -> Any:
        """Return a copy of one column: a value per agent, in the order of the nodes."""
        return self._table[:, which].copy()

    @property
    def connected(self) -> int:
        """Return the number of agents with a stream and a subscription."""
        return int(self._table[:, Column.CONNECTED].sum())

    @property
    def reports(self) -> int:
        """Return the number of reports sent."""
        return int(self._table[:, Column.REPORTS].sum())

    @property
    def losses(self) -> int:
        """Return the number of streams that were lost or failed."""
        return int(self._table[:, Column.LOSSES].sum())

    @property
    def reasons(self) -> dict[str, int]:
        """Return the count of agents by the gRPC status of their latest loss."""
        lost = self._table[self._table[:, Column.LOSSES] > 0]
        names = {code.value[0]: code.name for code in grpc.StatusCode}
        return dict(Counter(names[int(row[Column.CODE])] for row in lost))

    async def until(
        self, *, connected: int = 0, generation: int = 0, timeout: float = 120.0
    ) -> None:
        """Wait until this many are connected and all of those have answered this or a later subscription.

        Raises TimeoutError.
        """
        end = time.monotonic() + timeout
        while not (self.connected >= connected and self._answered(generation)):
            if time.monotonic() > end:
                raise TimeoutError(
                    f"{self.connected} of {connected} agents are connected after {timeout:g} s, "
                    f"{self.losses} attempts failed: {self.reasons}"
                )
            await asyncio.sleep(0.02)

    def _answered(self, generation: int) -> bool:
        up = self._table[:, Column.CONNECTED] > 0
        return bool((self._table[up, Column.GENERATION] >= generation).all())

    def told(self, begin: float) -> Spread:
        """Return the time from `begin` until each agent received its latest subscription."""
        return Spread.of(self.column(Column.TOLD) - begin)

    def answered(self, begin: float) -> Spread:
        """Return the time from `begin` until each agent had sent its full report."""
        return Spread.of(self.column(Column.ANSWERED) - begin)


def names(count: int, prefix: str = "fleet-") -> list[str]:
    """Return this many node names."""
    return [f"{prefix}{number:05}" for number in range(count)]
