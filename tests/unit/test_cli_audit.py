from __future__ import annotations

from typer.testing import CliRunner

from penstock.cli import app


def test_metrics_need_an_audit_that_goes_on() -> None:
    result = CliRunner().invoke(app, ["audit", "clickstream", "--metrics", "9108"])
    assert result.exit_code == 2
    assert "needs --every" in result.output
