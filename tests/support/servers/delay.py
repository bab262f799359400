"""A line that is late: ``delay.py PORT TARGET_PORT LATENCY`` passes TCP on, later.

Bytes from clients reach the server on TARGET_PORT after LATENCY seconds, in their order, as over a
long wire; answers come at once. So each request costs at least that much more, however many are in
flight, and the server behind is a real one. Runs as a plain script: it imports nothing of ours.
"""

from __future__ import annotations

import asyncio
import sys

CHUNK = 256 * 1024
# What may be under way to the server: a wire holds latency times bandwidth, not everything.
CHUNKS_IN_FLIGHT = 64


async def _delay(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, latency: float
) -> None:
    """Pass on what is read, each piece ``latency`` seconds after it came."""
    wire: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(CHUNKS_IN_FLIGHT)
    clock = asyncio.get_running_loop().time

    async def deliver() -> None:
        while True:
            due, data = await wire.get()
            await asyncio.sleep(max(0.0, due - clock()))
            if not data:
                break
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()

    async def accept() -> None:
        while True:
            data = await reader.read(CHUNK)
            await wire.put((clock() + latency, data))
            if not data:
                break

    await asyncio.gather(accept(), deliver())


async def _serve(port: int, target: int, latency: float) -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind: asyncio.StreamWriter | None = None
        try:
            answers, behind = await asyncio.open_connection("127.0.0.1", target)
            await asyncio.gather(_delay(reader, behind, latency), _delay(answers, writer, 0))
        except OSError:
            pass  # one side broke the connection: so does this, below
        finally:
            for end in (writer, behind):
                if end is not None:
                    end.close()

    server = await asyncio.start_server(connected, "127.0.0.1", port, backlog=1024)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))
