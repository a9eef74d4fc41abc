"""chdb as a ClickHouse server's engine: one statement in, with its settings; bytes and counts out."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from chdb import ChdbError
from chdb.state.sqlitelike import Connection

# The data of an INSERT follows its FORMAT clause. chdb's query() would cut that data at the first ";\n", and
# its send_insert() takes rows that a table refuses for written. So the data goes into a file, which the
# statement reads: 18,000 rows in 7 to 8 ms, as with send_insert().
INSERT = re.compile(
    rb"\s*(INSERT\s+INTO\s.*?)\s+FORMAT\s+(\w+)[ \t]*(?:;|\r?\n|\s|$)", re.IGNORECASE | re.DOTALL
)
TARGET = re.compile(r"INSERT\s+INTO\s+(?:TABLE\s+)?((?:[\w.]|`[^`]+`)+)\s*(?:\(([^()]*)\))?", re.IGNORECASE)
COLUMN = re.compile(r"`([^`]+)`|(\w+)")
SELECT = re.compile(rb"\bSELECT\b", re.IGNORECASE)
TRAILING_FORMAT = re.compile(rb"\bFORMAT\s+(\w+)[\s;]*$", re.IGNORECASE)
SETTING = re.compile(r"[A-Za-z_]\w*")
CODE = re.compile(r"Code: (\d+)\.")

_IN_MEMORY = Path("/dev/shm")  # noqa: S108  (files of this process, each with a name of its own)


@dataclass(frozen=True)
class Statement:
    """What a client asks for."""

    sql: bytes
    database: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, str] = field(default_factory=dict)
    default_format: str = "TabSeparated"


@dataclass(frozen=True)
class Answer:
    """What it gets. `format` is empty for statements without a result."""

    body: bytes
    format: str
    rows_read: int = 0
    bytes_read: int = 0
    rows_written: int = 0
    bytes_written: int = 0


class EngineError(Exception):
    """A ClickHouse exception: its number and its text, beginning with "Code: "."""

    def __init__(self, text: str) -> None:
        found = CODE.search(text)
        # chdb puts its own words before the exception's, e.g. "Streaming insert finish failed: Code: 27. ..."
        super().__init__(text[found.start() :] if found else f"Code: 1002. DB::Exception: {text}")
        self.code = int(found[1]) if found else 1002


class Engine:
    """The one owner of a directory.

    Every statement has a connection of its own (0.15 ms), so that its settings and its database are its own,
    and statements run side by side. The first connection stays open: it keeps the engine loaded.
    """

    def __init__(self, directory: Path) -> None:
        self._path = str(directory)
        self._keeper = Connection(self._path)

    def close(self) -> None:
        self._keeper.close()

    def run(self, statement: Statement) -> Answer:
        connection = Connection(self._path)
        try:
            _configure(connection, statement)
            head = INSERT.match(statement.sql)
            if head and not SELECT.search(head[1]):
                return _insert(connection, head[1].decode(), head[2].decode(), statement.sql[head.end() :])
            return _query(connection, statement)
        except (ChdbError, RuntimeError) as error:
            raise EngineError(str(error)) from error
        finally:
            connection.close()


def _configure(connection: Connection, statement: Statement) -> None:
    if statement.database:
        connection.query(f"USE {_quoted(statement.database, '`')}")
    for name in statement.settings:
        if not SETTING.fullmatch(name):
            raise EngineError(f"Code: 115. DB::Exception: Unknown setting {name!r}. (UNKNOWN_SETTING)")
    if statement.settings:
        pairs = (f"{name} = {_quoted(value, chr(39))}" for name, value in statement.settings.items())
        connection.query(f"SET {', '.join(pairs)}")


def _insert(connection: Connection, head: str, format_name: str, data: bytes) -> Answer:
    found = TARGET.fullmatch(head)
    if found is None:
        raise EngineError(f"Code: 62. DB::Exception: Syntax error: expected INSERT INTO table, got {head!r}")
    target, listed = found[1], found[2]
    types = _columns(connection, target)
    wanted = [quoted or plain for quoted, plain in COLUMN.findall(listed)] if listed else list(types)
    for name in wanted:
        if name not in types:
            raise EngineError(f"Code: 16. DB::Exception: No such column {name} in table {target}")
    if not data:
        return Answer(b"", "")
    names = ", ".join(_quoted(name, "`") for name in wanted)
    structure = ", ".join(f"{_quoted(name, '`')} {types[name]}" for name in wanted)
    with NamedTemporaryFile(dir=_IN_MEMORY if _IN_MEMORY.is_dir() else None) as file:
        file.write(data)
        file.flush()
        place = ", ".join(_quoted(text, "'") for text in (file.name, format_name, structure))
        done = connection.query(f"INSERT INTO {target} ({names}) SELECT {names} FROM file({place})")  # noqa: S608
    return Answer(b"", "", rows_written=done.rows_written(), bytes_written=done.bytes_written())


def _columns(connection: Connection, table: str) -> dict[str, str]:
    """The columns that a table can be given, with their types."""
    described = connection.query(f"DESCRIBE TABLE {table}", "JSONCompact").bytes()
    rows = json.loads(described)["data"]
    return {row[0]: row[1] for row in rows if row[2] not in ("ALIAS", "MATERIALIZED")}


def _query(connection: Connection, statement: Statement) -> Answer:
    # As bytes, against its signature: a statement may hold bytes that are no UTF-8.
    sql: Any = statement.sql
    result = connection.query(sql, statement.default_format, params=dict(statement.parameters))
    return Answer(
        body=result.bytes() or b"",
        format=_result_format(connection, statement),
        rows_read=result.storage_rows_read(),
        bytes_read=result.storage_bytes_read(),
        rows_written=result.rows_written(),
        bytes_written=result.bytes_written(),
    )


def _result_format(connection: Connection, statement: Statement) -> str:
    """The format of the result, as clients must be told even when it has no rows."""
    if explicit := TRAILING_FORMAT.search(statement.sql):
        return explicit[1].decode()
    kind = connection._conn.classify_query(statement.sql.decode(errors="replace"))["query_class"]
    return statement.default_format if kind.name == "READ_ONLY" else ""


def _quoted(text: str, quote: str) -> str:
    return quote + text.replace("\\", "\\\\").replace(quote, f"\\{quote}") + quote
