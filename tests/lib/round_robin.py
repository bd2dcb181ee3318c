#!/usr/bin/env python3
"""Hands connections to several servers in turn, as a load balancer would.

    round_robin.py http://127.0.0.1:PORT http://127.0.0.1:PORT…

The first line that it prints is its own base URL. Standard library only.
"""
from __future__ import annotations

import asyncio
import itertools
import sys
from urllib.parse import urlsplit


async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    """Carries bytes one way until the sender is done."""
    try:
        while piece := await source.read(64 * 1024):
            sink.write(piece)
            await sink.drain()
        if sink.can_write_eof():
            sink.write_eof()
    except (ConnectionError, OSError):
        sink.transport.abort()  # a side that is gone is gone for the other side too


async def main(urls: list[str]) -> None:
    targets = itertools.cycle([(parts.hostname, parts.port) for parts in map(urlsplit, urls)])

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, port = next(targets)
        try:
            back_reader, back_writer = await asyncio.open_connection(host, port)
        except OSError:
            writer.transport.abort()
            return
        await asyncio.gather(pump(reader, back_writer), pump(back_reader, writer))
        for end in (writer, back_writer):
            end.close()

    server = await asyncio.start_server(carry, "127.0.0.1", 0)
    print("http://127.0.0.1:%d" % server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
