# SPDX-License-Identifier: Apache-2.0
"""The catalogue says nothing impossible."""

import pytest

from mbridge_resiliency.drills import catalogue, faults, measure
from mbridge_resiliency.drills.job import WORLD_SIZE

DRILLS = list(catalogue.DRILLS.values())
each_drill = pytest.mark.parametrize("drill", DRILLS, ids=lambda drill: drill.name)


def test_names_are_unique_and_aliases_lead_to_drills():
    assert len(DRILLS) == len(catalogue._ALL)
    assert {catalogue.find(alias).name for alias in catalogue.ALIASES} <= set(catalogue.DRILLS)
    assert catalogue.find("hang") is catalogue.DRILLS["hang-stopped"]


@each_drill
def test_the_fault_can_fire(drill):
    fault = drill.job.fault
    if fault is None:
        return
    assert fault.kind in faults.KINDS
    assert 0 <= fault.rank < WORLD_SIZE
    assert 1 <= fault.iteration <= drill.job.iterations
    if fault.where == "checkpoint":
        assert fault.iteration % drill.job.save_interval == 0
    else:
        assert fault.where == "step"


@each_drill
def test_the_run_ends_with_a_save(drill):
    assert drill.job.iterations % drill.job.save_interval == 0


@each_drill
def test_what_is_expected_can_happen(drill):
    expected, launch = drill.expected, drill.launch
    assert expected.detected_by in (None, *measure.DETECTIONS)
    assert (expected.section is not None) == (expected.detected_by == "section")
    assert expected.cycles <= launch.max_restarts + 1
    assert (expected.outcome == "finished") == (expected.final_state_equal is True)
    assert (expected.exit_code is None) == (drill.watch_seconds is not None)
    assert WORLD_SIZE % launch.nodes == 0


@each_drill
def test_a_hang_has_a_timeout_that_bounds_its_detection(drill):
    fault = drill.job.fault
    if fault is not None and fault.kind in ("stopped", "hang") and drill.expected.detected_by:
        assert drill.timeout is not None


def test_a_watch_is_longer_than_every_timeout_that_could_have_noticed():
    for drill in DRILLS:
        if drill.watch_seconds is not None:
            waited = [seconds for section, seconds in drill.launch.sections.items() if section != "setup"]
            longest = max([*waited, drill.launch.out_of_section or 0.0])
            assert drill.watch_seconds > 2 * (longest + catalogue.CHECK_INTERVAL)


def test_options_are_those_of_the_program():
    assert catalogue.Launch().options() == [
        "--nnodes=1",
        "--nproc-per-node=2",
        "--max-restarts=2",
        "--monitor-interval=0.3",
        "--ft-workload-check-interval=0.5",
        "--ft-rank-section-timeouts=setup:60,step:3,checkpointing:3,warmup:10",
        "--ft-rank-out-of-section-timeout=4",
    ]
    assert not [o for o in catalogue.Launch(program="torchrun").options() if o.startswith("--ft")]
    assert "--nnodes=2:3" in catalogue.Launch(nodes=2, spare_nodes=1).options()
    assert catalogue.Launch(max_no_progress_cycles=1).options()[-2:] == [
        "--ft-checkpoint-iteration-file=checkpoints/latest_checkpointed_iteration.txt",
        "--ft-max-no-progress-cycles=1",
    ]
