# SPDX-License-Identifier: Apache-2.0
"""Seconds and iterations, from hand-made truths and lines."""

import json

import pytest

from mbridge_resiliency.drills.measure import (
    Line,
    detections,
    final_weights,
    launcher_lines,
    lost_iterations,
    measure,
    read_learned,
)


def told(event: str, at: float, cycle: int = 0, rank: int = 0, **details):
    return {"event": event, "at": at, "cycle": cycle, "rank": rank, **details}


#: Two ranks; rank 1 breaks in iteration 4 of 6, saved at 2, resumed from 2.
TRUTH = [
    *(told("started", 10.0, rank=rank) for rank in (0, 1)),
    *(told("resumed", 11.0, rank=rank, iteration=0) for rank in (0, 1)),
    *(told("iteration", 11.0 + i, rank=rank, iteration=i) for i in (1, 2, 3) for rank in (0, 1)),
    *(told("saved", 13.1, rank=rank, iteration=2) for rank in (0, 1)),
    told("fault", 14.5004, rank=1, iteration=4),
    *(told("started", 20.0, cycle=1, rank=rank) for rank in (0, 1)),
    *(told("resumed", 22.0, cycle=1, rank=rank, iteration=2) for rank in (0, 1)),
    *(told("iteration", 20.0 + i, cycle=1, rank=rank, iteration=i) for i in (3, 4, 5, 6) for rank in (0, 1)),
    *(told("saved", 26.1, cycle=1, rank=rank, iteration=6) for rank in (0, 1)),
    *(told("finished", 26.2, cycle=1, rank=rank, iteration=6, weights="same") for rank in (0, 1)),
]
LINES = [
    Line(10.0, "profiling.py:93   - Cycle: 0 Event: worker_start_completed Node: a Rank: 0"),
    Line(17.9, "rank_monitor_server.py:522 [Cycle 0] Section 'step' has been open for 3.4 seconds. Timeout is 3.0"),
    Line(18.2, "profiling.py:93   - Cycle: 1 Event: failure_detected Node: a Rank: 0"),
    Line(19.5, "profiling.py:93   - Cycle: 1 Event: worker_start_completed Node: a Rank: 0"),
    Line(19.7, "profiling.py:93   - Cycle: 1 Event: worker_start_completed Node: b Rank: 1"),
]


def test_a_hang_that_was_noticed_and_overcome():
    measured = measure(TRUTH, LINES)
    assert (measured.detected_by, measured.section) == ("section", "step")
    assert measured.detection_seconds == pytest.approx(3.4, abs=0.01)
    assert measured.restart_seconds == pytest.approx(1.8)  # both nodes' workers
    assert measured.resume_seconds == pytest.approx(5.1)  # iteration 3 of cycle 1 ended at 23.0
    assert (measured.cycles, measured.resumed_from, measured.lost_iterations) == (2, 2, 1)
    assert (measured.last_iteration, measured.last_saved_iteration) == (6, 6)


def test_a_line_in_the_millisecond_of_the_fault_is_its_detection():
    line = Line(14.5, "profiling.py:93   - Cycle: 1 Event: failure_detected Node: a Rank: 0")
    assert measure(TRUTH, [line]).detection_seconds == pytest.approx(0.0, abs=0.001)


def test_a_line_before_the_fault_is_not_its_detection():
    early = Line(12.0, "launcher.py:636 [default] Worker group FAILED. 1/2 attempts left; will restart worker group")
    assert measure(TRUTH, [early]).detected_by is None


def test_nothing_noticed():
    measured = measure(TRUTH[:11], LINES[:1])
    assert (measured.detected_by, measured.detection_seconds, measured.resume_seconds) == (None, None, None)
    assert (measured.cycles, measured.last_iteration, measured.lost_iterations) == (1, 3, 1)


def test_without_a_fault_there_is_no_moment_to_count_from():
    measured = measure([event for event in TRUTH if event["event"] != "fault"], LINES)
    assert measured.detected_by == "section"
    assert measured.detection_seconds is None
    assert measured.restart_seconds == pytest.approx(1.8)


def test_ranks_that_never_trained():
    measured = measure([told("started", 1.0)], [])
    assert measured.cycles == 1
    assert (measured.last_iteration, measured.resumed_from, measured.lost_iterations) == (None, None, None)


def test_a_run_that_failed_loses_what_was_not_saved_in_every_cycle():
    unfinished = [event for event in TRUTH if event["at"] < 25.5]
    assert lost_iterations(unfinished) == 1 + 3  # iteration 3, then 3 to 5 after the last save at 2


@pytest.mark.parametrize(
    ("text", "by", "section"),
    [
        ("[Cycle 0] Section 'setup' has been open for 3.06 seconds. Timeout is 3.00 seconds.", "section", "setup"),
        ("[Cycle 0] Was out of section for 5.19 seconds. Timeout is 5.00 seconds.", "out-of-section", None),
        ("[Cycle 0] Did not get initial heartbeat. Waited 4.00 seconds.", "heartbeat", None),
        ("[Cycle 0] Did not get subsequent heartbeat. Waited 1.00 seconds.", "heartbeat", None),
        ("launcher.py:636 [default] Worker group FAILED. 1/1 attempts left; will restart", "failure", None),
        ("launcher.py:3750 Agent run ended with exception, e=DistNetworkError('Failed to recv').", "store", None),
    ],
)
def test_every_way_to_notice(text, by, section):
    (found,) = detections([Line(1.0, text)])
    assert (found.by, found.section) == (by, section)


def test_launcher_lines_are_told_from_the_training_output():
    found = launcher_lines(
        [
            " [2026-12-01 14:34:10] iteration        1/      30 | consumed samples:            8 |",
            "2026-12-01 14:34:14,775 [WARNING] [host] [workload:?(0) infra:?(?)] rank_monitor_server.py:522 text",
            "FT: closing...",
        ]
    )
    assert len(found) == 1
    assert found[0].at == 1796135654.775
    assert found[0].text.endswith("text")


def test_final_weights_of_ranks_that_differ_are_both_told():
    assert final_weights(TRUTH) == {"same"}
    assert final_weights([*TRUTH, told("finished", 27.0, weights="other")]) == {"same", "other"}


def test_a_second_start_counts_although_its_cycle_is_the_launcher_s_first():
    again = [told("started", 30.0 + rank, rank=rank) for rank in (0, 1)]
    assert measure([told("started", 1.0), told("started", 1.0, rank=1), *again], []).cycles == 2


def test_what_was_learned_is_told_from_what_was_given(tmp_path):
    state = {
        "section": {"setup": 60.0, "step": 0.4},
        "out_of_section": 5.0,
        "calculated_sections": ["step"],
        "is_out_of_section_calculated": True,
    }
    path = tmp_path / "ft_state.json"
    assert read_learned(path) == {}
    path.write_text(json.dumps({"current_timeouts": {"section": state}}))
    assert read_learned(path) == {"step": 0.4, "out-of-section": 5.0}
