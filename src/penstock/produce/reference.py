"""The reference data that clicks point at: users and the catalogue, made from a seed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

SEGMENTS = ("new", "casual", "regular", "loyal", "trade")
COUNTRIES = ("DE", "FR", "GB", "IN", "JP", "NL", "PL", "SE", "US", "ZA")
CATEGORIES = ("audio", "books", "garden", "games", "kitchen", "outdoor", "shoes", "toys")
BRANDS = tuple(f"brand-{number:03d}" for number in range(200))

_MADE_FROM = b"penstock.made_from"


def user_ids(users: int) -> pa.Array:
    return pa.array([f"u{number:07d}" for number in range(users)])


def product_ids(products: int) -> pa.Array:
    return pa.array([f"p{number:05d}" for number in range(products)])


def list_prices_cents(products: int, seed: int) -> NDArray[np.int32]:
    """Between 1 and 2,000 of the currency, most of them near 20; never zero."""
    prices = np.random.default_rng([seed, 1]).lognormal(mean=7.6, sigma=0.9, size=products)
    return np.clip(prices, 100, 200_000).astype(np.int32)


def write_reference(directory: Path, *, users: int = 200_000, products: int = 20_000, seed: int = 7) -> None:
    """Write users.parquet and catalogue.parquet; a file made from the same arguments is left alone."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, make, rows in (("users", _users, users), ("catalogue", _catalogue, products)):
        path, made_from = directory / f"{name}.parquet", {"rows": rows, "seed": seed}
        if _made_from(path) != made_from:
            _write(path, make(rows, seed), made_from)


def _users(users: int, seed: int) -> pa.Table:
    rng = np.random.default_rng([seed, 2])
    return pa.table(
        {
            "user_id": user_ids(users),
            "segment": pa.array(SEGMENTS).take(pa.array(rng.integers(0, len(SEGMENTS), users))),
            "country": pa.array(COUNTRIES).take(pa.array(rng.integers(0, len(COUNTRIES), users))),
            "signup_year": pa.array(rng.integers(2010, 2026, users), pa.int32()),
        }
    )


def _catalogue(products: int, seed: int) -> pa.Table:
    rng = np.random.default_rng([seed, 3])
    return pa.table(
        {
            "product_id": product_ids(products),
            "category": pa.array(CATEGORIES).take(pa.array(rng.integers(0, len(CATEGORIES), products))),
            "brand": pa.array(BRANDS).take(pa.array(rng.integers(0, len(BRANDS), products))),
            "list_price": pa.array(list_prices_cents(products, seed) / 100.0),
        }
    )


def _made_from(path: Path) -> object:
    """The arguments a file was made from, or None when it is missing or not one of ours."""
    try:
        metadata = pq.read_schema(path).metadata or {}
        return json.loads(metadata.get(_MADE_FROM, b"null"))
    except (FileNotFoundError, pa.ArrowInvalid):
        return None


def _write(path: Path, table: pa.Table, made_from: dict[str, int]) -> None:
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        pq.write_table(table.replace_schema_metadata({_MADE_FROM: json.dumps(made_from)}), unfinished)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
