# SPDX-License-Identifier: Apache-2.0
"""Every drill for real, once: the expected story, equal final weights, the detection bound, and check_logs agreeing.

What a drill must show is in the catalogue; drill.py judges it, and passes only if all of it was shown.
"""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import mbridge_resiliency
from mbridge_resiliency.drills import catalogue, environment
from mbridge_resiliency.drills.job import TRUTH

DRILL = Path(mbridge_resiliency.__file__).resolve().parents[1] / "drill.py"
pytestmark = pytest.mark.drill


def run(name: str, out: Path, nvrx: str = environment.DEFAULT_NVRX, *options: str) -> dict:
    """Run the drill and return its result; skip where its environment does not exist."""
    if not _environment(nvrx).bridge and catalogue.find(name).job.needs_bridge:
        pytest.skip("Megatron Bridge is not installed: it needs Python 3.12")
    done = subprocess.run(
        [sys.executable, str(DRILL), "run", name, "--nvrx", nvrx, "--out", str(out), "--format", "json", *options],
        capture_output=True,
        text=True,
    )
    assert done.returncode in (0, 1), done.stderr
    (result,) = json.loads(done.stdout)
    assert [check for check in result["checks"] if not check["passed"]] == []
    assert (result["passed"], done.returncode) == (True, 0)
    return result


@pytest.mark.parametrize("name", catalogue.DRILLS)
def test_drill(name, tmp_path):
    result = run(name, tmp_path)
    expected = catalogue.find(name).expected
    assert result["final_state_equal"] is expected.final_state_equal
    if catalogue.find(name).timeout is not None:
        assert result["measured"]["detection_seconds"] <= catalogue.find(name).timeout + catalogue.CHECK_INTERVAL + 1.0
    assert not _processes_in(tmp_path)


@pytest.mark.parametrize("name", ["hang-stopped", "no-progress"])
def test_drill_at_nvrx_0_6_0(name, tmp_path):
    assert run(name, tmp_path, "0.6.0")["versions"]["nvidia-resiliency-ext"] == "0.6.0"


def test_hang_on_nvrx_alone(tmp_path):
    result = run("hang", tmp_path, environment.DEFAULT_NVRX, "--without-bridge")
    assert "real NVRx alone" in result["label"]
    assert "megatron-bridge" not in result["versions"]


def test_ctrl_c_in_the_middle_of_a_hang_leaves_no_process(tmp_path):
    _environment(environment.DEFAULT_NVRX)
    process = subprocess.Popen(
        [sys.executable, str(DRILL), "run", "hang", "--out", str(tmp_path)], stderr=subprocess.PIPE, text=True
    )
    try:
        deadline = time.monotonic() + 120
        while not (tmp_path / "hang-stopped" / TRUTH / "fired").exists():
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.1)
        assert _processes_in(tmp_path)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert not _processes_in(tmp_path)


def _environment(nvrx: str) -> environment.Environment:
    try:
        return environment.find(nvrx)
    except environment.NotPrepared as error:
        pytest.skip(str(error))


def _processes_in(folder: Path) -> list[Path]:
    return [entry for entry in Path("/proc").glob("[0-9]*/cwd") if _leads_into(entry, folder)]


def _leads_into(entry: Path, folder: Path) -> bool:
    try:
        return entry.resolve().is_relative_to(folder.resolve())
    except OSError:  # the process has ended, or is another user's
        return False
