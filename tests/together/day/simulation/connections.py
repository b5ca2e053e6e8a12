"""In-memory HTTP connections between a client and a server of one process, without delay, and breakable."""

import asyncio

import aiohttp


class End(asyncio.Transport):
    """One end of a connection. `held` bytes arrive without a notification, as if packets were lost."""

    def __init__(self, protocol):
        super().__init__({"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 2)})
        self.held = False
        self.other = None
        self._loop = asyncio.get_running_loop()
        self._protocol = protocol
        self._reading = True
        self._arrived = []
        self._closing = False
        self._ended = False

    def write(self, data):
        if not self._closing and data:
            self._loop.call_soon(self.other.arrive, bytes(data))

    def writelines(self, list_of_data):
        self.write(b"".join(list_of_data))

    def arrive(self, data):
        self._arrived.append(data)
        self._pass_on()

    def _pass_on(self):
        while self._arrived and self._reading and not self.held and not self._ended:
            self._protocol.data_received(self._arrived.pop(0))

    def pause_reading(self):
        self._reading = False

    def resume_reading(self):
        self._reading = True
        self._loop.call_soon(self._pass_on)

    def is_reading(self):
        return self._reading

    def is_closing(self):
        return self._closing

    def close(self):
        if not self._closing:
            self._closing = True
            self._loop.call_soon(self.end)
            self._loop.call_soon(self.other.hang_up)

    def abort(self):
        self.close()

    def hang_up(self):
        """The peer has closed."""
        if not self.held:
            self._closing = True
            self.end()

    def end(self):
        if not self._ended:
            self._ended = True
            self._protocol.connection_lost(None)

    def can_write_eof(self):
        return False

    def get_protocol(self):
        return self._protocol

    def set_protocol(self, protocol):
        self._protocol = protocol

    def get_write_buffer_size(self):
        return 0

    def get_write_buffer_limits(self):
        return (0, 0)

    def set_write_buffer_limits(self, high=None, low=None):
        pass


class Connector(aiohttp.BaseConnector):
    """Connects an aiohttp client to a server: `serve` makes the server's protocol, or raises OSError."""

    def __init__(self, serve):
        super().__init__(limit=0)
        self._serve = serve

    async def _create_connection(self, req, _traces, _timeout):
        theirs = self._serve(req.url.host)
        ours = aiohttp.client_proto.ResponseHandler(loop=self._loop)
        client, server = End(ours), End(theirs)
        client.other, server.other = server, client
        theirs.connection_made(server)
        ours.connection_made(client)
        return ours
