# SPDX-License-Identifier: Apache-2.0
"""drill.py as a user calls it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import mbridge_resiliency
from mbridge_resiliency.drills import catalogue

DRILL = Path(mbridge_resiliency.__file__).resolve().parents[1] / "drill.py"


def drill(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(DRILL), *arguments], capture_output=True, text=True, env={**os.environ, **environment}
    )


def test_list_names_every_drill():
    done = drill("list")
    assert done.returncode == 0
    assert [line.split()[0] for line in done.stdout.splitlines()] == [*catalogue.DRILLS, *catalogue.ALIASES]


def test_list_as_json():
    body = json.loads(drill("list", "--format", "json").stdout)
    assert [entry["name"] for entry in body["drills"]] == list(catalogue.DRILLS)
    assert body["drills"][1]["expected"]["cause"] == "hang-in-section"


def test_an_unknown_drill():
    done = drill("run", "no-such-drill")
    assert done.returncode == 2
    assert "no-such-drill" in done.stderr and "hang-stopped" in done.stderr
    assert "Traceback" not in done.stderr


def test_without_an_environment_it_says_which_command_makes_one(tmp_path):
    done = drill("run", "hang", "--nvrx", "0.0.1", MBRIDGE_RESILIENCY_CACHE=str(tmp_path))
    assert done.returncode == 3
    assert "setup.sh drills --nvrx 0.0.1" in done.stderr
    assert done.stdout == ""


def test_it_needs_no_torch_to_list():
    done = subprocess.run(
        [sys.executable, "-X", "importtime", str(DRILL), "list"], capture_output=True, text=True, check=True
    )
    assert "| torch" not in done.stderr
