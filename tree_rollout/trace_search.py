"""Every observation and action is looked at, each different text once, however many turns share it."""

import sqlite3

from tree_rollout import trace_codec as codec

_TEXTS = "SELECT digest, size, packed FROM blobs WHERE digest IN (SELECT observation FROM turns UNION SELECT action FROM turns)"


def collect_texts(connection: sqlite3.Connection, text: str) -> None:
    """Put the digests of all observations and actions that contain `text`, whatever their case, into the table `temp.found`."""
    wanted = text.casefold()
    # Of this connection alone, so it is made on files that are open for reading only as well.
    connection.execute("CREATE TEMP TABLE IF NOT EXISTS found (digest BLOB PRIMARY KEY)")
    connection.execute("DELETE FROM temp.found")
    holding = (
        (address,)
        for address, size, packed in connection.execute(_TEXTS)
        if wanted in codec.decode_text(codec.unpack(packed, size, address)).casefold()
    )
    connection.executemany("INSERT INTO temp.found VALUES (?)", holding)
