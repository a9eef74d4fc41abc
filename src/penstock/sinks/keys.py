"""What tells the rows of a table apart."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from penstock.errors import SinkError


def require_keys(sink: str, rows: pa.Table, names: Iterable[str]) -> None:
    """Refuse rows without a key: a store would drop them, or take all of them for one."""
    for name in names:
        if name not in rows.column_names:
            raise SinkError(
                f"sink {sink}: the rows have no column {name}, which is to tell them apart",
                hint=f"They have {', '.join(rows.column_names)}.",
            )
        if empty := rows.column(name).null_count:
            raise SinkError(
                f"sink {sink}: {empty} of {rows.num_rows} rows have no {name}, which is to tell them apart",
                hint="Require it of the records in [cleanse], so that those without it are set aside.",
            )
