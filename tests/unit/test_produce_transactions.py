"""Payments as they are drawn, written and expected."""

from __future__ import annotations

import json
from collections import defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import PenstockError
from penstock.produce.chunk import FATE_OF_FLAW, Fate, Flaw, Timing
from penstock.produce.ledger import LedgerWriter, read_ledger
from penstock.produce.oracle import newest_by_id
from penstock.produce.transactions import (
    AUTHORISED,
    CAPTURE_AFTER_MS,
    CAPTURED,
    CURRENCIES,
    STATES,
    PaymentChunk,
    TransactionsPlan,
)
from penstock.produce.wire import Message

PLAN = TransactionsPlan(customers=500, baskets=200, malformed=0.03, invalid=0.03, duplicate=0.1)
START_MS = 1_800_000_000_000
SIZE = 100


def chunks(plan: TransactionsPlan = PLAN, *, count: int = 300) -> list[PaymentChunk]:
    """A run in chunks of 10 ms."""
    payments = plan.records("p1", 10_000)
    return [payments.chunk(SIZE, START_MS + 10 * tick) for tick in range(count)]


def joined(made: list[PaymentChunk]) -> PaymentChunk:
    return PaymentChunk(
        **{name: np.concatenate([getattr(chunk, name) for chunk in made]) for name in vars(made[0])}
    )


@pytest.fixture(scope="module")
def payments() -> PaymentChunk:
    return joined(chunks())


@pytest.fixture(scope="module")
def messages(payments: PaymentChunk) -> list[Message]:
    return PLAN.encoder("p1").encode(payments)


def parsed(value: bytes) -> Any:
    """The payment, or None where a decoder must not accept it."""
    try:
        payment = json.loads(value, parse_float=Decimal)
        good = isinstance(payment["payment"]["amount"], Decimal)
    except (ValueError, KeyError, TypeError):
        return None
    return payment if good else None


def accepted(payment: Any) -> bool:
    """The cleansing of pipelines/transactions.toml."""
    paid = payment["payment"]
    total = sum((item["qty"] * item["price"] for item in payment["items"]), Decimal(0))
    return (
        payment.get("transaction_id") is not None
        and paid["currency"].upper() in CURRENCIES
        and paid["amount"] > 0
        and total == paid["amount"]
    )


def test_the_same_plan_gives_the_same_payments_and_another_producer_others(payments: PaymentChunk) -> None:
    again = joined(chunks())
    assert all(np.array_equal(getattr(payments, name), getattr(again, name)) for name in vars(payments))
    other = PLAN.records("p2", 10_000).chunk(SIZE, START_MS)
    assert not np.array_equal(other.basket, payments.basket[:SIZE])


def test_every_chunk_has_the_size_asked_for() -> None:
    records = TransactionsPlan(duplicate=0.5, captured=1.0).records("p1", 1000)
    sizes = [7, 0, 1, 1000, 3, 50]
    assert [len(records.chunk(n, START_MS + 400 * i)) for i, n in enumerate(sizes)] == sizes


def test_a_capture_follows_its_authorisation_and_says_the_same_but_for_state_and_time(
    payments: PaymentChunk,
) -> None:
    captures = np.flatnonzero((payments.state == CAPTURED) & (payments.timing != Timing.REPEATED))
    origin = {int(payments.number[at]): at for at in np.flatnonzero(payments.state == AUTHORISED)[::-1]}
    origins = np.array([origin[int(payments.number[at])] for at in captures])
    assert len(captures) > 1_000
    assert (origins < captures).all()
    assert (payments.created_ms[captures] - payments.created_ms[origins]).min() >= CAPTURE_AFTER_MS
    for name in ("basket", "customer", "currency", "method", "channel"):
        assert np.array_equal(getattr(payments, name)[captures], getattr(payments, name)[origins]), name


def test_about_as_many_are_captured_as_planned(payments: PaymentChunk) -> None:
    fresh = payments[payments.timing != Timing.REPEATED]
    old_enough = (
        (fresh.created_ms < START_MS + 2_000) & (fresh.state == AUTHORISED) & (fresh.flaw == Flaw.NONE)
    )
    captured = np.isin(fresh.number[old_enough], fresh.number[fresh.state == CAPTURED])
    assert abs(captured.mean() - PLAN.captured) < 0.02


def test_no_copy_of_an_authorisation_comes_after_the_capture(payments: PaymentChunk) -> None:
    seen = set()
    for number, state in zip(payments.number.tolist(), payments.state.tolist(), strict=True):
        assert state == CAPTURED or number not in seen
        if state == CAPTURED:
            seen.add(number)
    assert (payments.timing == Timing.REPEATED).sum() > 1_000


def test_a_good_record_says_what_the_ledger_says(tmp_path: Path) -> None:
    made = chunks(count=120)
    with LedgerWriter(tmp_path, PLAN, "p1") as ledger:
        for chunk in made:
            ledger.record(chunk)
    found = read_ledger(tmp_path)
    assert found.plan == PLAN
    values = [message["value"] for chunk in made for message in PLAN.encoder("p1").encode(chunk)]
    rows = found.records.to_pylist()
    good = [(row, parsed(value)) for row, value in zip(rows, values, strict=True) if row["fate"] == "ok"]
    for row, payment in good:
        paid, customer = payment["payment"], payment["customer"]
        said = {
            "transaction_id": payment["transaction_id"],
            "state": payment["state"],
            "amount": paid["amount"],
            "currency": paid["currency"].upper(),
            "method": paid["method"]["kind"],
            "last4": paid["method"].get("last4"),
            "customer_id": customer["id"],
            "country": customer["country"],
            "item_count": len(payment["items"]),
            "first_sku": payment["items"][0]["sku"],
            "channel": payment["tags"].get("channel"),
            "seq": payment["seq"],
            "created_ms": payment["created_ms"],
        }
        assert said == {name: row[name] for name in said}
        when = np.datetime64(payment["ts"].removesuffix("Z"), "ms").astype(int)
        assert (payment["producer"], when) == ("p1", row["ts_ms"])
    assert len(good) > 10_000
    assert {row["state"] for row, _ in good} == set(STATES)
    assert None in {row["last4"] for row, _ in good}
    assert None in {row["channel"] for row, _ in good}


def test_the_key_is_the_transaction(payments: PaymentChunk, messages: list[Message]) -> None:
    assert [message["key"] for message in messages] == [b"p1-%d" % number for number in payments.number]


def test_a_malformed_record_cannot_be_decoded(payments: PaymentChunk, messages: list[Message]) -> None:
    rows = np.flatnonzero(FATE_OF_FLAW[payments.flaw] == Fate.MALFORMED).tolist()
    assert len(rows) > 500
    assert {Flaw(payments.flaw[row]) for row in rows} >= {Flaw.WRONG_TYPE, Flaw.BAD_UTF8}
    assert [row for row in rows if parsed(messages[row]["value"]) is not None] == []


def test_an_invalid_record_decodes_and_fails_cleansing(
    payments: PaymentChunk, messages: list[Message]
) -> None:
    rows = np.flatnonzero(FATE_OF_FLAW[payments.flaw] == Fate.INVALID).tolist()
    assert len(rows) > 500
    assert [row for row in rows if accepted(parsed(messages[row]["value"]))] == []


def test_a_good_record_passes_cleansing(payments: PaymentChunk, messages: list[Message]) -> None:
    rows = np.flatnonzero(payments.flaw == Flaw.NONE).tolist()
    assert [row for row in rows if not accepted(parsed(messages[row]["value"]))] == []


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 99)), max_size=40), st.integers(0, 40))
def test_the_last_record_of_an_id_stands(sent: list[tuple[str, int]], cut: int) -> None:
    rows = pa.table(
        {
            "id": pa.array([id_ for id_, _ in sent], pa.string()),
            "value": pa.array([v for _, v in sent], pa.int64()),
        }
    )
    chunked = pa.concat_tables([rows.slice(0, cut), rows.slice(cut)])
    assert {row["id"]: row["value"] for row in newest_by_id(chunked, "id").to_pylist()} == dict(sent)


def test_the_expected_table_is_the_last_good_record_of_each_transaction(tmp_path: Path) -> None:
    with LedgerWriter(tmp_path, PLAN, "p1") as ledger:
        for chunk in chunks():
            ledger.record(chunk)
    records = read_ledger(tmp_path).records
    good = records.filter(pa.compute.equal(records["fate"].cast(pa.string()), "ok"))
    last: dict[str, list[str]] = defaultdict(list)
    for row in good.select(["transaction_id", "state"]).to_pylist():
        last[row["transaction_id"]].append(row["state"])
    rows = PLAN.expected(None, good, 0)["events"].rows  # type: ignore[arg-type]
    assert {row["transaction_id"]: row["state"] for row in rows.to_pylist()} == {
        name: states[-1] for name, states in last.items()
    }
    # A capture that was refused leaves the authorisation standing.
    refused = {
        row["transaction_id"]
        for row in records.to_pylist()
        if row["fate"] != "ok"
        and row["state"] == "captured"
        and set(last[row["transaction_id"]]) == {"authorised"}
    }
    assert refused


def test_an_impossible_plan_is_refused_with_every_reason() -> None:
    with pytest.raises(PenstockError, match=r"(?s)baskets.*captured.*shares"):
        TransactionsPlan(baskets=0, captured=2, malformed=3)


def test_there_is_no_clock_to_move() -> None:
    with pytest.raises(PenstockError, match="no sessions or windows"):
        PLAN.clock_chunk(ts_ms=1, created_ms=1)
