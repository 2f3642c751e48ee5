# SPDX-License-Identifier: Apache-2.0
"""The verdict on one run of a drill, as data, as text for a person and as the JSON that is committed."""

from __future__ import annotations

import os
import signal
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from typing import Any, Mapping

from . import measure
from .catalogue import CHECK_INTERVAL, Drill
from .environment import Environment
from .job import FT_STATE, LOGS, TRUTH
from .measure import Measured
from .runner import Run
from .stack import BRIDGE_LABEL, NVRX_LABEL

SCHEMA_VERSION = 1
#: Beside timeout and check interval, what a detection may take (seconds): scheduling, and writing the line.
DETECTION_SLACK = 1.0
#: Of these check_logs must name the rank, or suspects with the rank among them; of others it may name none.
_CAUSES_OF_A_RANK = ("hang-", "rank-")
#: Told by check_logs from the logs, and by the ranks: measure.Measured.
_ITERATIONS = ("last_iteration", "last_saved_iteration", "resumed_from", "lost_iterations")


@dataclass(frozen=True)
class Check:
    """One thing that the drill must show, and what it showed."""

    what: str
    wanted: Any
    seen: Any
    passed: bool


@dataclass(frozen=True)
class Result:
    """The verdict. See as_dict for the JSON."""

    drill: Drill
    environment: Environment
    run: Run
    label: str
    measured: Measured
    learned: Mapping[str, float]
    final_state_equal: bool | None
    story: Mapping[str, Any]
    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        """True if the drill showed all that it must."""
        return all(check.passed for check in self.checks)

    def as_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "schema_version": SCHEMA_VERSION,
            "drill": self.drill.name,
            "title": self.drill.title,
            "feature": self.drill.feature,
            "broken": self.drill.broken,
            "label": self.label,
            "command": self.run.command,
            "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
            "versions": self.environment.versions,
            "machine": machine(),
            "configured": self.drill.configured,
            "measured": self.measured.as_dict(),
            "learned_timeouts": {name: round(seconds, 2) for name, seconds in self.learned.items()},
            "run_seconds": round(self.run.seconds, 1),
            "orphans": self.run.orphans,
            "lost_iterations": self.measured.lost_iterations,
            "final_state_equal": self.final_state_equal,
            "expected": asdict(self.drill.expected),
            "story": _summary(self.story),
            "checks": [asdict(check) for check in self.checks],
            "passed": self.passed,
        }


def _summary(story: Mapping[str, Any]) -> dict[str, Any]:
    """What check_logs told, without the lines that it quotes: they are in the logs, and name this machine."""
    verdict = story["verdict"]
    cause = verdict["cause"] or {}
    return {
        "outcome": verdict["outcome"],
        "cause": {key: cause.get(key) for key in ("id", "rank", "section", "suspects", "victims")} if cause else None,
        **{key: verdict[key] for key in _ITERATIONS},
        "fault_tolerance": story["features"]["fault_tolerance"]["state"],
    }


def judge(drill: Drill, environment: Environment, run: Run, undisturbed: str, story: Mapping[str, Any]) -> Result:
    """Compare what the run showed with what the drill expects.

    Args:
        drill: what was run.
        environment: with what.
        run: what it left.
        undisturbed: the final weights' digest of the same job unbroken.
        story: what check_logs tells from the logs alone (to_dict of logs.examine).
    """
    truth = measure.read_truth(run.folder / TRUTH)
    measured = measure.measure(truth, measure.read_lines(run.folder / LOGS))
    weights = measure.final_weights(truth)
    equal = weights == {undisturbed} if weights else None
    learned = measure.read_learned(run.folder / FT_STATE)
    checks = [
        *_shown(drill, environment, run, measured, equal),
        _equal("timeouts learned for", list(drill.expected.learned), list(learned)),
        *_told(drill, measured, story),
    ]
    label = BRIDGE_LABEL if environment.bridge else NVRX_LABEL
    return Result(drill, environment, run, label, measured, learned, equal, story, tuple(checks))


def _shown(drill: Drill, environment: Environment, run: Run, measured: Measured, equal: bool | None) -> list[Check]:
    expected = drill.expected
    codes = [code for code in run.exit_codes if code != -signal.SIGKILL]  # a lost node's launcher died with it
    wanted = expected.exit_code_at.get(environment.versions["nvidia-resiliency-ext"], expected.exit_code)
    wanted_codes = [wanted] * len(codes)
    checks = [
        _equal("ended within the time limit", True, not run.timed_out),
        _equal("launcher's exit code", wanted_codes, codes),
        _equal("noticed by", expected.detected_by, measured.detected_by),
        _equal("overdue section", expected.section, measured.section),
        _equal("cycles", expected.cycles, measured.cycles),
        _equal("resumed from iteration", expected.resumed_from, measured.resumed_from),
        _equal("final weights equal the undisturbed run's", expected.final_state_equal, equal),
    ]
    if drill.timeout is not None and measured.detection_seconds is not None:
        most = drill.timeout + CHECK_INTERVAL + DETECTION_SLACK
        seen = round(measured.detection_seconds, 2)
        checks.append(Check("noticed within (seconds)", most, seen, measured.detection_seconds <= most))
    if expected.says is not None:
        said = any(expected.says in log.read_text(errors="replace") for log in (run.folder / LOGS).glob("*.log"))
        checks.append(_equal(f"logs say {expected.says!r}", True, said))
    return checks


def _equal(what: str, wanted: Any, seen: Any) -> Check:
    return Check(what, wanted, seen, wanted == seen)


def _told(drill: Drill, measured: Measured, story: Mapping[str, Any]) -> list[Check]:
    """check_logs must tell, from the logs alone, what the ranks and the catalogue know."""
    expected, verdict = drill.expected, story["verdict"]
    cause = verdict["cause"] or {}
    checks = [
        _equal("check_logs: outcome", expected.outcome, verdict["outcome"]),
        _equal("check_logs: cause", expected.cause, cause.get("id")),
        _equal("check_logs: section", expected.section, cause.get("section")),
        *(_equal(f"check_logs: {name}", getattr(measured, name), verdict[name]) for name in _ITERATIONS),
    ]
    accused = {cause["rank"]} if cause.get("rank") is not None else set(cause.get("suspects", ()))
    guilty = {drill.job.fault.rank} if drill.job.fault else set()
    must_name = (expected.cause or "").startswith(_CAUSES_OF_A_RANK)
    named = accused >= guilty > set() if must_name or accused else True
    return [*checks, Check("check_logs: names the rank at fault", sorted(guilty), sorted(accused), named)]


def machine() -> dict[str, Any]:
    """Cores that this process may use, and memory."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {"cores": len(os.sched_getaffinity(0)), "memory_gib": round(pages / 2**30)}
