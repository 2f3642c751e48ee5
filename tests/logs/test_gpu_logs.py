# SPDX-License-Identifier: Apache-2.0
"""The logs of real training on GPUs (results/gpu) tell the story that was measured while they were made."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from mbridge_resiliency import report as report_package
from mbridge_resiliency.logs import examine

RESULTS = Path(__file__).parents[2] / "results" / "gpu"
SCHEMA = json.loads((Path(report_package.__file__).parent / "check_logs.schema.json").read_text(encoding="utf-8"))
LOGS = sorted(path.name.removesuffix(".log.gz") for path in RESULTS.glob("*.log.gz"))
#: Case -> cause id; None where nothing went wrong.
CAUSES = {
    "healthy": None,
    "preempted": None,
    "crash": "rank-killed",
    "hang": "hang-in-section",
    "stopped": "hang-in-section",
    "plugin_heartbeats": "heartbeat-timeout-without-heartbeats",
}


@pytest.mark.skipif(not LOGS, reason="results/gpu holds no logs")
@pytest.mark.parametrize("case", LOGS)
def test_the_measured_story_is_told(case: str) -> None:
    measured = json.loads((RESULTS / f"{case}.json").read_text(encoding="utf-8"))
    told = json.loads(examine([RESULTS / f"{case}.log.gz"]).to_json())
    jsonschema.validate(told, SCHEMA)
    verdict, feature = told["verdict"], told["features"]["fault_tolerance"]
    assert verdict["last_iteration"] == measured["last_iteration"]
    orderly = verdict["outcome"] in ("finished", "stopped_on_purpose")
    assert orderly == (measured["exit_code"] == 0)
    sections = measured["configured"].get("rank_section_timeouts") or {}
    assert feature["state"] == ("active" if sections else "inactive")
    assert feature["timeouts"]["sections"] == sections
    if case in CAUSES:
        assert (verdict["cause"] or {}).get("id") == CAUSES[case]
    if case == "preempted":
        assert verdict["action"]["resubmit"] and "if it was not stopped for good" in verdict["action"]["reason"]
    faults = [step["cycle"] for step in told["timeline"] if step["what"].startswith("simulated fault")]
    assert len(faults) == len(set(faults)), "printed to standard output and error, told once"
    seconds = measured["measured"]
    if seconds["resume_seconds"] is not None:
        (incident,) = told["incidents"]
        assert incident["lost_iterations"] == measured["lost_iterations"]
        assert abs(incident["seconds"]["to_restart"] - seconds["restart_seconds"]) < 1.0
        assert abs(incident["seconds"]["to_resume"] - seconds["resume_seconds"]) < 1.5  # iterations tell whole seconds
        if incident["seconds"]["to_detect"] is not None:
            assert abs(incident["seconds"]["to_detect"] - seconds["detection_seconds"]) < 1.0
