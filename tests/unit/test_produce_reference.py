from pathlib import Path

import pyarrow.parquet as pq

from penstock.produce.reference import write_reference


def test_the_same_seed_writes_the_same_users_and_catalogue(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_reference(tmp_path / name, users=500, products=50, seed=7)
    for file in ("users.parquet", "catalogue.parquet"):
        assert pq.read_table(tmp_path / "one" / file).equals(pq.read_table(tmp_path / "two" / file))


def test_another_seed_writes_other_values(tmp_path: Path) -> None:
    for seed in (7, 8):
        write_reference(tmp_path / str(seed), users=500, products=50, seed=seed)
    prices = [pq.read_table(tmp_path / seed / "catalogue.parquet")["list_price"] for seed in ("7", "8")]
    assert prices[0] != prices[1]


def test_the_columns_are_those_that_pipelines_join_on(tmp_path: Path) -> None:
    write_reference(tmp_path, users=500, products=50)
    users, catalogue = (pq.read_table(tmp_path / f"{name}.parquet") for name in ("users", "catalogue"))
    assert users.column_names == ["user_id", "segment", "country", "signup_year"]
    assert catalogue.column_names == ["product_id", "category", "brand", "list_price"]
    assert (users["user_id"][499].as_py(), catalogue["product_id"][49].as_py()) == ("u0000499", "p00049")
    assert min(catalogue["list_price"].to_pylist()) >= 1


def test_files_made_from_the_same_arguments_are_left_alone(tmp_path: Path) -> None:
    write_reference(tmp_path, users=500, products=50)
    before = [(path.stat().st_ino, path.stat().st_mtime_ns) for path in sorted(tmp_path.iterdir())]
    write_reference(tmp_path, users=500, products=50)
    assert [(path.stat().st_ino, path.stat().st_mtime_ns) for path in sorted(tmp_path.iterdir())] == before


def test_other_arguments_or_a_broken_file_are_written_again(tmp_path: Path) -> None:
    write_reference(tmp_path, users=500, products=50)
    (tmp_path / "catalogue.parquet").write_bytes(b"half a file")
    write_reference(tmp_path, users=600, products=50)
    assert pq.read_table(tmp_path / "users.parquet").num_rows == 600
    assert pq.read_table(tmp_path / "catalogue.parquet").num_rows == 50
    assert sorted(path.name for path in tmp_path.iterdir()) == ["catalogue.parquet", "users.parquet"]
