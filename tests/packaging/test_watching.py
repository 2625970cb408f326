"""What a server tells is in the reference; the dashboard and the alerts ask for nothing else, in a language that Prometheus knows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec
import promql_parser as promql
import pytest
import yaml
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from tests.docs.page import ROOT, page
from tests.support.serving import Served

DASHBOARD: dict[str, Any] = msgspec.json.decode((ROOT / "deploy/grafana/rowq.json").read_bytes())
ALERTS: list[dict[str, Any]] = yaml.safe_load((ROOT / "deploy/prometheus/alerts.yaml").read_text(encoding="utf-8"))["groups"][0]["rules"]
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
OBSERVING = page("docs/guide/observing.md")
METRICS = page("docs/reference/metrics.md")
OF_PROMETHEUS = {"up"}
"""What Prometheus adds by itself."""


def queries() -> dict[str, str]:
    """Every query by where it stands; what Grafana would fill in is filled in."""
    found = {
        f"{panel['title']} {target['refId']}": target["expr"].replace("$__rate_interval", "5m").replace("$queue", ".*")
        for panel in PANELS
        for target in panel["targets"]
    }
    return found | {rule["alert"]: rule["expr"] for rule in ALERTS}


QUERIES = queries()


def selectors(query: str) -> Iterator[promql.VectorSelector]:
    """Each metric that a query asks for, with its labels."""
    found: list[promql.VectorSelector] = []

    def look(part: Any) -> bool:
        selector = part.vector_selector if isinstance(part, promql.MatrixSelector) else part
        if isinstance(selector, promql.VectorSelector):
            found.append(selector)
        return True

    promql.walk(promql.parse(query), look)
    yield from found


@pytest.fixture(scope="module")
def families(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Metric]:
    """All that a real server tells, by the names that Prometheus shows. Something has happened there: waits have no sample before."""
    served = Served(tmp_path_factory.mktemp("watched"), "--json", "--no-admin")
    try:
        served.announced()
        served.ask("POST", "/v1/queues/q/messages", {"payload": 1})
        receipt = served.ask("POST", "/v1/queues/q/deliveries", {}).json["deliveries"][0]["receipt"]
        served.ask("POST", "/v1/ack", {"receipts": [receipt]})
        text = served.ask("GET", "/metrics").body.decode()
    finally:
        served.close()
    found = text_string_to_metric_families(text)
    return {f"{family.name}_total" if family.type == "counter" else family.name: family for family in found}


@pytest.fixture(scope="module")
def told(families: dict[str, Metric]) -> dict[str, set[str]]:
    """The names of all samples, each with its labels."""
    samples = [sample for family in families.values() for sample in family.samples]
    return {sample.name: set(sample.labels) | {"job", "instance"} for sample in samples}


@pytest.mark.parametrize("where", QUERIES)
def test_a_query_is_one_and_asks_for_what_is_told(where: str, told: dict[str, set[str]]) -> None:
    asked = list(selectors(QUERIES[where]))
    assert asked
    for selector in asked:
        if selector.name not in OF_PROMETHEUS:
            assert selector.name in told, f"no server tells {selector.name}"
            matched = {matcher.name for matcher in selector.matchers.matchers}
            assert matched <= told[selector.name], f"{selector.name} has the labels {told[selector.name]}"


def test_a_query_that_is_none_is_found_out() -> None:
    with pytest.raises(ValueError, match="unclosed"):
        promql.parse("sum(rowq_messages")


def test_the_metrics_of_a_query_are_found_wherever_they_stand() -> None:
    query = "sum by (queue) (rate(a_total[5m])) > 0.5 * b unless on (queue) max(c{state='x'}) == 1"
    assert {selector.name for selector in selectors(query)} == {"a_total", "b", "c"}


def test_the_reference_lists_every_metric_with_its_type_and_labels(families: dict[str, Metric]) -> None:
    def described(name: str, family: Metric) -> list[str]:
        labels = sorted({label for sample in family.samples for label in sample.labels} - {"le"})
        return [f"`{name}`", family.type, ", ".join(f"`{label}`" for label in labels)]

    own = [described(name, family) for name, family in families.items() if name.startswith("rowq_")]
    assert sorted(row[:3] for row in METRICS.table("metric")) == sorted(own)
    of_the_process = [described(name, family)[:2] for name, family in families.items() if not name.startswith("rowq_")]
    assert sorted(row[:2] for row in METRICS.table("metric of the process")) == sorted(of_the_process)


def test_the_reference_tells_what_a_label_may_be(families: dict[str, Metric]) -> None:
    for name, _, _, meaning in METRICS.table("metric"):
        samples = families[name.strip("`")].samples
        values = {(label, value) for sample in samples for label, value in sample.labels.items() if label not in ("queue", "version", "le")}
        assert not [f"{name}: {label}={value}" for label, value in values if f"`{value}`" not in meaning]


def test_the_guide_names_no_metric_that_is_not_there(told: dict[str, set[str]], families: dict[str, Metric]) -> None:
    assert not set(re.findall(r"\browq_\w+", OBSERVING.text)) - set(told) - set(families)


def test_every_metric_of_a_server_is_on_the_dashboard(families: dict[str, Metric]) -> None:
    shown = {re.sub(r"_(bucket|sum|count)$", "", str(selector.name)) for query in QUERIES.values() for selector in selectors(query)}
    assert not {name for name in families if name.startswith("rowq_")} - shown, "give them a panel"


@pytest.mark.parametrize(
    "text", ["Throughput", "Depth", "Age of the oldest", "Wait", "Processing", "Dead letters", "Retries", "Leases lost"]
)
def test_the_dashboard_has_a_panel_for_what_people_look_for(text: str) -> None:
    assert any(panel["title"].startswith(text) for panel in PANELS)


def test_panels_have_ids_of_their_own_and_do_not_overlap() -> None:
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert at["x"] + at["w"] <= 24 and not cells & taken, panel["title"]
        taken |= cells


def test_every_alert_says_what_happened_and_what_to_do() -> None:
    assert len({rule["alert"] for rule in ALERTS}) == len(ALERTS)
    for rule in ALERTS:
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert set(rule["annotations"]) == {"summary", "action"}


def test_the_guide_shows_alerts_as_they_are() -> None:
    (shown,) = [yaml.safe_load(block.text) for block in OBSERVING.blocks if "- alert:" in block.text]
    assert shown and all(rule in ALERTS for rule in shown)
