"""The connections of a server, no more than so many: for a new one, a silent one has to go, and a stranger before a client."""

import asyncio
from enum import Enum, auto

Task = asyncio.Task[None]


class Doing(Enum):
    """What a connection is at."""

    NOTHING = auto()
    RECEIVING = auto()
    ANSWERING = auto()
    SENDING = auto()


class Crowd:
    """Connections by their task; those that wait for their client in the order in which they began to."""

    def __init__(self, limit: int, *, sending: int) -> None:
        """At most `limit`, of which at most `sending` have an answer that they have not taken yet."""
        self._limit = limit
        self._sending = sending
        self.tasks: set[Task] = set()
        self._clients: set[Task] = set()
        self._asking: set[Task] = set()
        self._strangers: dict[Task, Doing] = {}
        self._silent: dict[Task, Doing] = {}
        self._deaf: dict[Task, Doing] = {}
        self._waiting = (self._strangers, self._silent, self._deaf)  # in the order in which they go

    @property
    def asked(self) -> bool:
        """Whether some client is asking something, or being answered."""
        return bool(self._asking)

    def admit(self, task: Task) -> None:
        """A connection that begins; until it is known, or has asked for something, it is a stranger's."""
        self.tasks.add(task)
        self._strangers[task] = Doing.NOTHING
        task.add_done_callback(self._gone)

    def know(self, task: Task) -> None:
        """A connection is no stranger's: its client has shown a certificate that can be believed."""
        self._clients.add(task)
        self.note(task, Doing.NOTHING)

    def note(self, task: Task, doing: Doing) -> None:
        """What a connection is at from now on."""
        self._forget(task)
        if doing is not Doing.NOTHING:
            self._asking.add(task)
        if doing is Doing.ANSWERING:
            self._clients.add(task)
        elif task not in self._clients:
            self._strangers[task] = doing
        elif doing is Doing.SENDING:
            self._deaf[task] = doing
            if len(self._deaf) > self._sending:
                _end_longest(self._deaf)
        else:
            self._silent[task] = doing

    def has_room(self) -> bool:
        """Whether one more may come; if need be, the one that its client has kept waiting longest goes.

        So many that have not asked for anything yet keep nobody out, and they do not drive out who has. Nor do so many keep
        anybody out that ask and do not take the answer: a probe that is refused ends the process.
        """
        if len(self.tasks) < self._limit:
            return True
        for waiting in self._waiting:
            if waiting:
                _end_longest(waiting)
                return True
        return False

    def end_idle(self) -> None:
        """End those of whom nothing is being asked."""
        for task, doing in (*self._strangers.items(), *self._silent.items()):
            if doing is Doing.NOTHING:
                task.cancel()

    def _gone(self, task: Task) -> None:
        self.tasks.discard(task)
        self._clients.discard(task)
        self._forget(task)

    def _forget(self, task: Task) -> None:
        self._asking.discard(task)
        for waiting in self._waiting:
            waiting.pop(task, None)


def _end_longest(waiting: dict[Task, Doing]) -> None:
    longest = next(iter(waiting))
    del waiting[longest]
    longest.cancel()
