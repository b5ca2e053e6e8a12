"""The connections of a server, no more than so many: for a new one, a silent one has to go, and a stranger before a client."""

import asyncio
from enum import Enum, auto

Task = asyncio.Task[None]


class Doing(Enum):
    """What a connection is at."""

    NOTHING = auto()
    RECEIVING = auto()
    ANSWERING = auto()


class Crowd:
    """Connections by their task; those that wait for their client in the order in which they began to."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.tasks: set[Task] = set()
        self._clients: set[Task] = set()
        self._waiting_strangers: dict[Task, Doing] = {}
        self._waiting_clients: dict[Task, Doing] = {}

    def admit(self, task: Task) -> None:
        """A connection that begins; until it is known, or has asked for something, it is a stranger's."""
        self.tasks.add(task)
        self._waiting_strangers[task] = Doing.NOTHING
        task.add_done_callback(self._gone)

    def know(self, task: Task) -> None:
        """A connection is no stranger's: its client has shown a certificate that can be believed."""
        self._clients.add(task)
        self.note(task, Doing.NOTHING)

    def note(self, task: Task, doing: Doing) -> None:
        """What a connection is at from now on."""
        self._waiting_strangers.pop(task, None)
        self._waiting_clients.pop(task, None)
        if doing is Doing.ANSWERING:
            self._clients.add(task)
        elif task in self._clients:
            self._waiting_clients[task] = doing
        else:
            self._waiting_strangers[task] = doing

    def has_room(self) -> bool:
        """Whether one more may come; if need be, the one that its client has kept waiting longest goes.

        So many that have not asked for anything yet keep nobody out, and they do not drive out who has.
        """
        if len(self.tasks) < self._limit:
            return True
        for waiting in (self._waiting_strangers, self._waiting_clients):
            if waiting:
                longest = next(iter(waiting))
                del waiting[longest]
                longest.cancel()
                return True
        return False

    def end_idle(self) -> None:
        """End those of whom nothing is being asked."""
        for task, doing in (*self._waiting_strangers.items(), *self._waiting_clients.items()):
            if doing is Doing.NOTHING:
                task.cancel()

    def _gone(self, task: Task) -> None:
        self.tasks.discard(task)
        self._clients.discard(task)
        self._waiting_strangers.pop(task, None)
        self._waiting_clients.pop(task, None)
