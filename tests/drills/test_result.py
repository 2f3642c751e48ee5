# SPDX-License-Identifier: Apache-2.0
"""The verdict on a run: what passes, and each thing that must fail it."""

import copy
import json
from pathlib import Path

import pytest

from mbridge_resiliency.drills import catalogue, text
from mbridge_resiliency.drills.environment import Environment
from mbridge_resiliency.drills.job import LOGS, TRUTH
from mbridge_resiliency.drills.result import judge
from mbridge_resiliency.drills.runner import Run

HANG = catalogue.find("hang-stopped")
ENVIRONMENT = Environment(
    Path("/nowhere/python"),
    {"python": "3.12.1", "nvidia-resiliency-ext": "0.7.0", "megatron-bridge": "0.6.2", "megatron-core": "0.19.2"},
)
AT = 1796135650.0  # 2026-12-01 14:34:10 UTC
STORY = {
    "verdict": {
        "outcome": "finished",
        "cause": {"id": "hang-in-section", "section": "step", "rank": None, "suspects": [0, 1]},
        "last_iteration": 30,
        "last_saved_iteration": 30,
        "resumed_from": 10,
        "lost_iterations": 6,
    },
    "features": {"fault_tolerance": {"state": "active", "evidence": "/somebody/s/folder/job.log:12"}},
}


@pytest.fixture
def hang(tmp_path):
    """Judge a run of hang-stopped whose hang was noticed after the given seconds."""

    def make(*, detection: float = 3.2, weights: str = "right", story=STORY, drill=HANG, **run):
        events = [
            {"event": "started", "at": AT, "cycle": 0},
            {"event": "resumed", "at": AT, "cycle": 0, "iteration": 0},
            *({"event": "iteration", "at": AT + i / 100, "cycle": 0, "iteration": i} for i in range(1, 17)),
            {"event": "fault", "at": AT + 1, "cycle": 0, "iteration": 17},
            {"event": "started", "at": AT + 20, "cycle": 1},
            {"event": "resumed", "at": AT + 21, "cycle": 1, "iteration": 10},
            *({"event": "iteration", "at": AT + 22 + i / 100, "cycle": 1, "iteration": i} for i in range(11, 31)),
            {"event": "saved", "at": AT + 23, "cycle": 1, "iteration": 30},
            {"event": "finished", "at": AT + 23, "cycle": 1, "iteration": 30, "weights": weights},
        ]
        (tmp_path / TRUTH).mkdir()
        (tmp_path / LOGS).mkdir()
        (tmp_path / TRUTH / "rank1.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
        seconds = f"{11 + detection:06.3f}".replace(".", ",")
        (tmp_path / LOGS / "job.log").write_text(
            f"2026-12-01 14:34:{seconds} [WARNING] [host] [workload:?(0) infra:?(?)] rank_monitor_server.py:522 "
            f"[Cycle 0] Section 'step' has been open for {detection:.2f} seconds. Timeout is 3.00 seconds.\n"
        )
        settings = {
            "exit_codes": (0,),
            "timed_out": False,
            "orphans": 0,
            "seconds": 40.0,
            "command": "ft_launcher",
            **run,
        }
        return judge(drill, ENVIRONMENT, Run(folder=tmp_path, **settings), "right", story)

    return make


def failed(result) -> list[str]:
    return [check.what for check in result.checks if not check.passed]


def test_what_passes(hang):
    result = hang()
    assert failed(result) == []
    assert result.passed
    told = text.describe(result)
    assert "3.20 s  noticed by section 'step', timeout 3 s" in told
    assert "equal, bit for bit" in told
    assert "passed in 40 s" in told


def test_a_detection_later_than_timeout_and_check_interval_and_one_second(hang):
    assert failed(hang(detection=4.6)) == ["noticed within (seconds)"]


def test_weights_that_differ(hang):
    result = hang(weights="wrong")
    assert failed(result) == ["final weights equal the undisturbed run's"]
    assert "NOT EQUAL" in text.describe(result)


@pytest.mark.parametrize(
    ("run", "what"),
    [({"exit_codes": (1,)}, "launcher's exit code"), ({"timed_out": True}, "ended within the time limit")],
)
def test_a_run_that_ended_otherwise(hang, run, what):
    result = hang(**run)
    assert failed(result) == [what]
    assert "NOT PASSED" in text.describe(result)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"outcome": "failed"}, "check_logs: outcome"),
        ({"lost_iterations": 0}, "check_logs: lost_iterations"),
        ({"cause": None}, "check_logs: cause"),
        ({"cause": {"id": "hang-in-section", "section": "setup", "rank": 1}}, "check_logs: section"),
        ({"cause": {"id": "hang-in-section", "section": "step", "rank": 0}}, "check_logs: names the rank at fault"),
        ({"cause": {"id": "hang-in-section", "section": "step"}}, "check_logs: names the rank at fault"),
        (
            {"cause": {"id": "hang-in-section", "section": "step", "suspects": [0]}},
            "check_logs: names the rank at fault",
        ),
    ],
)
def test_another_story_from_check_logs(hang, change, what):
    story = copy.deepcopy(STORY)
    story["verdict"].update(change)
    assert what in failed(hang(story=story))


def test_a_culprit_where_nobody_is_at_fault(hang):
    assert "check_logs: names the rank at fault" in failed(hang(drill=catalogue.find("plugin-heartbeats")))


@pytest.mark.parametrize(("version", "code"), [("0.7.0", 93), ("0.6.0", 1)])
def test_an_exit_code_that_differs_between_versions(hang, monkeypatch, version, code):
    monkeypatch.setitem(ENVIRONMENT.versions, "nvidia-resiliency-ext", version)
    what = {check.what: check for check in hang(drill=catalogue.find("no-progress"), exit_codes=(code,)).checks}
    assert what["launcher's exit code"].passed


def test_timeouts_that_were_to_be_learned_and_were_not(hang):
    assert "timeouts learned for" in failed(hang(drill=catalogue.find("learned-timeouts")))


def test_the_json_says_what_was_run_and_measured(hang):
    body = json.loads(json.dumps(hang().as_dict()))
    assert body["schema_version"] == 1
    assert (body["drill"], body["passed"], body["lost_iterations"]) == ("hang-stopped", True, 6)
    assert body["configured"]["section_timeouts"]["step"] == 3.0
    assert body["measured"]["detection_seconds"] == 3.2
    assert body["versions"]["nvidia-resiliency-ext"] == "0.7.0"
    assert body["machine"]["cores"] >= 1
    assert (body["story"]["cause"]["suspects"], body["story"]["fault_tolerance"]) == ([0, 1], "active")
    assert "/somebody" not in json.dumps(body)
