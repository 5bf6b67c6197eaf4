"""Comparing a run with the baseline: numbers in, verdicts out, nothing measured."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bench import __main__ as bench
from tests.bench.ratios import (
    Sampled,
    compare,
    decode_baseline,
    encode_baseline,
    regressions,
    table,
    unmeasured,
)
from tests.bench.suite import PROBES, headless_start, preparing


def line(name: str, *subject: float, yardstick: tuple[float, ...] = (10.0,)) -> Sampled:
    return Sampled(name, "bare Python", subject, yardstick)


def test_a_ratio_is_of_the_best_runs_because_disturbances_only_add() -> None:
    sampled = line("start", 90.0, 30.0, 31.0, yardstick=(10.0, 55.0))
    assert sampled.ratio == pytest.approx(3.0)
    assert sampled.merged(line("start", 20.0, yardstick=(8.0,))).ratio == pytest.approx(2.5)


@pytest.mark.parametrize(
    ("took", "verdict"), [(30.0, "ok"), (38.9, "ok"), (39.1, "slower"), (90.0, "slower"), (20.9, "faster")]
)
def test_thirty_percent_more_than_the_baseline_is_too_much(took: float, verdict: str) -> None:
    [compared] = compare([line("start", took)], {"start": 3.0})
    assert compared.verdict == verdict


def test_a_slower_machine_changes_nothing() -> None:
    [compared] = compare([line("start", 300.0, yardstick=(100.0,))], {"start": 3.0})
    assert compared.verdict == "ok"
    assert compared.change == pytest.approx(0.0)


def test_a_slower_row_is_named_with_its_numbers() -> None:
    compared = compare([line("start", 60.0), line("keys", 10.0), line("new", 1.0)], {"start": 3.0, "keys": 1.0})
    assert regressions(compared) == ["start: 6.00 × bare Python, 100% more than the 3.00 of the baseline"]
    shown = table(compared).splitlines()
    assert len({row.find("bare Python") for row in shown[1:]}) == 1, "the columns stand under one another"
    assert shown[1].endswith("+100%  SLOWER")
    assert shown[3].endswith("not in the baseline")


def test_a_row_that_is_no_longer_measured_is_a_problem() -> None:
    compared = compare([line("start", 30.0)], {"start": 3.0, "lost": 1.0})
    assert unmeasured(compared, {"start": 3.0, "lost": 1.0}) == ["lost"]


def test_a_baseline_survives_being_written_and_read() -> None:
    lines = [line("start", 30.0), line("tiny", 0.5, yardstick=(7.0,))]
    text = encode_baseline(lines, {"cores": 2})
    assert decode_baseline(text) == pytest.approx({"start": 3.0, "tiny": 0.5 / 7.0}, rel=1e-3)
    assert json.loads(text)["machine"] == {"cores": 2}
    with pytest.raises(ValueError, match="--save-baseline"):
        decode_baseline('{"format": 99}')


def test_the_kept_baseline_can_be_read_and_has_every_part() -> None:
    kept = decode_baseline(bench.BASELINE.read_text())
    parts = ("start:", "key to paint:", "streaming:", "interrupt:", "memory:", "iteration:", "context:", "resume:")
    for part in parts:
        assert any(name.startswith(part) for name in kept), part
    assert all(ratio > 0 for ratio in kept.values())


def test_a_row_that_seems_too_slow_is_measured_again_with_more_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def probe(runs: int) -> list[Sampled]:
        asked.append(runs)
        return [line("start", 60.0 if len(asked) == 1 else 30.0)]

    monkeypatch.setattr(bench, "PROBES", {"start": (probe, 3)})
    [compared] = bench.measured("start", None, {"start": 3.0})
    assert asked == [3, 5]
    assert compared.verdict == "ok"
    bench.measured("start", None, {"start": 3.0})
    assert asked == [3, 5, 3], "what is in order is measured once"


@pytest.mark.parametrize(("slow", "code"), [(False, 0), (True, 1)])
def test_check_fails_only_for_slower_rows(
    slow: bool, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    kept = tmp_path / "baseline.json"
    kept.write_text(encode_baseline([line("start", 30.0)], {}))
    monkeypatch.setattr(bench, "BASELINE", kept)
    monkeypatch.setattr(bench, "PROBES", {"start": (lambda _runs: [line("start", 60.0 if slow else 31.0)], 1)})
    assert bench.as_table(["start"], None, check=True, save=False) == code
    shown = capsys.readouterr().out
    assert ("! start: 6.00" in shown) == slow
    assert bench.as_table(["start"], None, check=False, save=False) == 0, "without --check it is only told"
    assert bench.as_table(["start"], None, check=False, save=True) == 0
    assert bench.as_table(["start"], None, check=True, save=False) == 0


def test_a_missing_baseline_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(bench, "BASELINE", tmp_path / "none.json")
    monkeypatch.setattr(bench, "PROBES", {"start": (lambda _runs: [line("start", 1.0)], 1)})
    assert bench.as_table(["start"], None, check=True, save=False) == 1
    assert "--save-baseline" in capsys.readouterr().out


@pytest.mark.parametrize(("probe", "less"), [(headless_start, {"warm_ups": 0}), (preparing, {"messages": 200})])
def test_a_probe_measures_both_sides(probe: Callable[..., list[Sampled]], less: dict[str, int]) -> None:
    """Of those that start no app; the others use the same parts."""
    assert any(probe is known for known, _runs in PROBES.values())
    for sampled in probe(1, **less):
        assert len(sampled.subject) == len(sampled.yardstick) == 1
        assert sampled.ratio > 0
