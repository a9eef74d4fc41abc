"""Whether reference data can be used, by its columns and their types alone: no row is read."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from penstock.engine.pgquery import read_query
from penstock.engine.reference import conform, row_of_unknown_keys
from penstock.engine.unusable import Unusable
from penstock.engine.versions import Versions
from penstock.errors import SpecError, first_line
from penstock.preflight.facts import CheckpointFacts, ReferenceFacts
from penstock.spec import Enrich, PipelineSpec


def read_reference(
    spec: PipelineSpec, data: Path, postgres: str, checkpoints: tuple[CheckpointFacts, ...]
) -> tuple[ReferenceFacts, ...]:
    return tuple(
        ReferenceFacts(
            enrich.name,
            problems=tuple(_problems(enrich, data, postgres)),
            kept=any(_is_kept(enrich, Path(checkpoint.path)) for checkpoint in checkpoints),
        )
        for enrich in spec.enrich
    )


def _problems(enrich: Enrich, data: Path, postgres: str) -> list[str]:
    try:
        table = conform(_schema(enrich, data, postgres).empty_table(), enrich)
        row_of_unknown_keys(enrich, table.schema)
    except Unusable as error:
        return error.reasons
    except SpecError as error:
        return error.problems
    except FileNotFoundError:
        return [f"no such file ({data / str(enrich.path)})"]
    except (pa.ArrowException, OSError) as error:
        return [f"cannot be read: {first_line(error)}"]
    return []


def _schema(enrich: Enrich, data: Path, postgres: str) -> pa.Schema:
    if enrich.path is None:
        query = str(enrich.query).strip().rstrip(";")
        # The query is the pipeline owner's own; it may end in a comment.
        return read_query(postgres, f"SELECT * FROM (\n{query}\n) AS reference LIMIT 0").schema  # noqa: S608
    path = data / enrich.path
    if path.name.endswith((".csv", ".csv.gz")):
        # Types are guessed from the first block.
        options = pacsv.ConvertOptions(column_types={enrich.on: pa.string()}, null_values=[""])
        with pacsv.open_csv(path, convert_options=options) as reader:
            return reader.schema
    if path.is_dir():
        return pq.ParquetDataset(path).schema
    return pq.read_schema(path)


def _is_kept(enrich: Enrich, checkpoint: Path) -> bool:
    """Whether a start may go on with a version of the checkpoint's: as engine/refresh.py decides."""
    if enrich.refresh is None:
        return False
    try:
        versions = Versions(checkpoint)
        last = versions.last(enrich.name)
        return last is not None and versions.read(enrich.name, last) is not None
    except (OSError, ValueError):
        return False
