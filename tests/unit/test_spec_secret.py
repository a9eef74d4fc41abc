"""A password in an address connects, and is never shown."""

from __future__ import annotations

import logging
import pickle
import traceback
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg.conninfo import conninfo_to_dict

from penstock.engine.outputs import Endpoints
from penstock.spec import ServiceAddresses, load, to_toml
from penstock.spec.secret import Secret

PIPELINE = Path(__file__).parents[2] / "pipelines" / "transactions.toml"
PASSWORD = "Hunter2/never@told?"
ENCODED = quote(PASSWORD, safe="")


def ways_to_show(secret: Secret) -> list[str]:
    record = logging.LogRecord("x", logging.INFO, "", 1, "at %s, %r", (secret, secret), None)
    try:
        raise ValueError(secret)
    except ValueError as error:
        told = "".join(traceback.format_exception(error))
    shown = [str(secret), repr(secret), f"{secret}", f"{secret!r:>80}", f"{secret:>80}", "%s" % secret]  # noqa: UP031
    return [*shown, "{}".format(secret), repr([secret]), repr({"a": secret}), record.getMessage(), told]  # noqa: UP032


@given(st.text("abcXYZ0189_-.:@/?#%&= ", min_size=6, max_size=20), st.sampled_from(["", "?sslmode=require"]))
def test_no_way_of_showing_an_address_shows_its_password(password: str, options: str) -> None:
    secret = Secret(f"postgresql://someone:{password}#9@db.example.org:5432/shop{options}")
    assert not [shown for shown in ways_to_show(secret) if f"{password}#9" in shown]


def test_the_rest_of_an_address_is_shown() -> None:
    assert str(Secret(f"postgresql://ann:{ENCODED}@db:5432/shop")) == "postgresql://ann:***@db:5432/shop"
    assert str(Secret("http://ann@host:8123/")) == "http://ann@host:8123/"
    assert str(Secret("host:8123")) == "host:8123"
    assert str(Secret("embedded")) == "embedded"
    assert str(Secret("postgresql://db/shop?user=ann&password=secret")) == "postgresql://db/shop"
    assert str(Secret("ann secret@host")) == "***"


def test_drivers_get_the_whole_of_it_here_and_in_other_processes() -> None:
    whole = Secret(f"postgresql://ann:{ENCODED}@db:5432/shop")
    for secret in (whole, pickle.loads(pickle.dumps(whole))):  # noqa: S301  (our own)
        assert conninfo_to_dict(secret)["password"] == PASSWORD
        assert urlsplit(secret).password == ENCODED
        assert isinstance(secret, Secret)


@pytest.mark.parametrize("service", ["postgres", "clickhouse"])
def test_a_spec_keeps_passwords_to_itself(service: str) -> None:
    scheme = {"postgres": "postgresql", "clickhouse": "http"}[service]
    address = f"{scheme}://ann:{ENCODED}@db:5432"
    spec = load(PIPELINE, environ={}, overrides={f"services.{service}": address})
    held = getattr(spec.services, service)
    at = Endpoints("k:1", held, held)
    assert held == address
    for shown in (repr(spec), str(spec), to_toml(spec), spec.model_dump_json(), repr(at), f"{at}"):
        assert ENCODED not in shown
    assert "ann:***@db" in to_toml(spec)
    assert ServiceAddresses().postgres == "embedded"
