"""The shipped rules, dashboard and document against the metrics there are, and against each other."""

from __future__ import annotations

import inspect
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from penstock.observe.board import alerts
from penstock.observe.board.alerts import LIMITS
from penstock.observe.prometheus.metrics import METRICS
from penstock.paths import PROJECT
from tests.prometheus import RULES, promtool
from tests.unit.test_docs import anchors

DASHBOARD = PROJECT / "deploy" / "grafana" / "penstock.json"
DOCUMENT = PROJECT / "docs" / "metrics.md"
SUFFIXES = {
    "gauge": ("",),
    "counter": ("",),
    "histogram": ("_bucket", "_sum", "_count"),
    "summary": ("_sum", "_count"),
}
LABELS = {metric.name + suffix: metric.labels for metric in METRICS for suffix in SUFFIXES[metric.kind]}
BUCKETS = {name for name in LABELS if name.endswith("_bucket")}
OF_PROMETHEUS = {"job", "instance"}
PANELS = [panel for panel in json.loads(DASHBOARD.read_text())["panels"] if panel["type"] != "row"]


@dataclass(frozen=True)
class Rule:
    name: str
    expr: str
    severity: str
    annotations: dict[str, str]
    lasts: str


RULES_SHIPPED = [
    Rule(rule["alert"], rule["expr"], rule["labels"]["severity"], rule["annotations"], rule.get("for", ""))
    for group in yaml.safe_load(RULES.read_text())["groups"]
    for rule in group["rules"]
]
TESTS = yaml.safe_load(RULES.with_suffix(".test.yml").read_text())["tests"]

each_rule = pytest.mark.parametrize("rule", RULES_SHIPPED, ids=lambda rule: f"{rule.name}-{rule.severity}")
each_panel = pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])


def problems(expression: str) -> list[str]:
    """Metrics that nobody shows, and labels that none of an expression's metrics has."""
    found = re.findall(r"\b(penstock_\w+)(?:\{([^}]*)\})?", expression)
    wrong = [f"no metric {name}" for name, _ in found if name not in LABELS]
    known = OF_PROMETHEUS.union(*(LABELS.get(name, ()) for name, _ in found))
    known |= {"le"} if any(name in BUCKETS for name, _ in found) else set()
    for name, matchers in found:
        for label in re.findall(r"(\w+)\s*[=!]", matchers):
            if label not in {*LABELS.get(name, ()), *OF_PROMETHEUS}:
                wrong.append(f"{name} has no label {label}")
    for listed in re.findall(r"\b(?:by|on|group_left|ignoring|without) \(([^)]*)\)", expression):
        wrong += [f"no metric has a label {one}" for one in re.findall(r"\w+", listed) if one not in known]
    return wrong


@pytest.mark.parametrize(
    "expression",
    [
        "penstock_lag_second > 1",
        "penstock_latency_seconds > 1",
        'penstock_lag_seconds{sink="a"}',
        'penstock_phase{phase=~"a",state!="b"}',
        "sum by (sink) (penstock_lag_seconds)",
        "sum by (le) (penstock_latency_seconds_sum)",
    ],
)
def test_a_wrong_expression_would_be_found(expression: str) -> None:
    assert problems(expression)


@each_rule
def test_a_rule_names_metrics_and_labels_that_there_are(rule: Rule) -> None:
    assert problems(rule.expr.replace('up{job="penstock"}', "")) == []
    words = " ".join(rule.annotations.values())
    assert set(re.findall(r"\bpenstock_\w+", words)) <= {*LABELS, *(metric.name for metric in METRICS)}
    known = OF_PROMETHEUS.union(*(LABELS[name] for name in re.findall(r"\bpenstock_\w+", rule.expr)))
    assert set(re.findall(r"\$labels\.(\w+)", words)) <= known


@each_rule
def test_a_rule_says_what_is_wrong_and_where_to_read_on(rule: Rule) -> None:
    assert set(rule.annotations) == {"summary", "description", "runbook"}
    assert rule.severity in ("warning", "critical")
    document, _, anchor = rule.annotations["runbook"].partition("#")
    assert anchor == rule.name.lower()
    assert anchor in anchors(PROJECT / document)


@each_rule
def test_each_rule_is_seen_to_fire_and_not_to(rule: Rule) -> None:
    of_it = [one for test in TESTS for one in test["alert_rule_test"] if one["alertname"] == rule.name]
    fired = [alert for one in of_it for alert in one.get("exp_alerts", ())]
    assert rule.severity in {alert["exp_labels"]["severity"] for alert in fired}
    assert any(not one.get("exp_alerts") for one in of_it)


def page_alerts() -> dict[str, str]:
    """The alerts of the page and their severity, as the source tells; that of LagHigh depends."""
    source = inspect.getsource(alerts)
    told = dict(re.findall(r'Alert\(\s*"(\w+)", "(\w+)", ', source))
    # Those of the audit come from a table.
    return told | dict.fromkeys(re.findall(r'\("(\w+)", audit\.', source), "critical")


def test_the_rules_bear_the_names_and_the_severity_of_the_alerts_on_the_page() -> None:
    shown = page_alerts()
    severities: dict[str, set[str]] = {}
    for rule in RULES_SHIPPED:
        severities.setdefault(rule.name, set()).add(rule.severity)
    for name, severity in shown.items():
        assert severity in severities[name], name
    assert severities["LagHigh"] == {"critical", "warning"}
    assert set(severities) - set(shown) == {"LagHigh", "MetricsGone", "PipelineGone", "NoPipelines"}


@pytest.mark.parametrize(
    ("name", "limit"),
    [
        ("PipelineSilent", LIMITS.silent_ms / 1000),
        ("LagHigh", LIMITS.lag_warning_ms / 1000),
        ("LagHigh", LIMITS.lag_critical_ms / 1000),
        ("LagGrowing", LIMITS.growing_age_ms / 1000),
        ("BatchesFailing", LIMITS.failures),
        ("TopicUnseen", LIMITS.unseen_ms / 1000),
        ("DeadLettersHigh", LIMITS.dead_letters),
        ("CheckpointSlow", LIMITS.checkpoint_ms / 1000),
    ],
)
def test_the_rules_have_the_limits_of_the_page(name: str, limit: float) -> None:
    expressions = [rule.expr for rule in RULES_SHIPPED if rule.name == name]
    assert any(re.search(rf">=? {limit:g}\b", expression) for expression in expressions)


def test_promtool_takes_the_rules_and_they_do_what_their_tests_say() -> None:
    assert "SUCCESS" in promtool("check", "rules", str(RULES))
    assert "SUCCESS" in promtool("check", "config", str(RULES.with_name("prometheus.yml")))
    assert "SUCCESS" in promtool("test", "rules", str(RULES.with_suffix(".test.yml")))


@each_panel
def test_a_panel_names_metrics_that_there_are_and_says_what_it_shows(panel: dict[str, Any]) -> None:
    assert panel["targets"]
    for target in panel["targets"]:
        assert problems(target["expr"]) == []
        assert "$pipeline" in target["expr"]
        shown = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
        assert shown <= set().union(*(LABELS[name] for name in re.findall(r"penstock_\w+", target["expr"])))
    assert panel["description"]
    assert panel["fieldConfig"]["defaults"]["unit"]


def test_promtool_takes_the_expressions_of_the_panels(tmp_path: Path) -> None:
    shown = [target["expr"] for panel in PANELS for target in panel["targets"]]
    rules = [{"record": f"panel:{number}", "expr": expr} for number, expr in enumerate(shown)]
    (tmp_path / "panels.yml").write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    assert f"{len(shown)} rules found" in promtool("check", "rules", str(tmp_path / "panels.yml"))


def test_panels_have_places_of_their_own() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert max(x for x, _ in cells) < 24
        assert not taken & cells, panel["title"]
        taken |= cells


def test_the_document_describes_every_metric_as_the_collector_does() -> None:
    wanted = [
        f"| `{one.name}` | {one.kind} | {', '.join(one.labels[1:]) or '-'} | {one.help} |" for one in METRICS
    ]
    written = [line for line in DOCUMENT.read_text().splitlines() if line.startswith("| `penstock_")]
    assert written == wanted


def test_the_document_tells_of_every_alert() -> None:
    assert {rule.name.lower() for rule in RULES_SHIPPED} <= anchors(DOCUMENT)
