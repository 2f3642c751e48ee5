# SPDX-License-Identifier: Apache-2.0
"""Asking the Bridge that the drills drive."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any, Callable

import pytest

from mbridge_resiliency.drills import environment, stack


@pytest.fixture(scope="session")
def ask_bridge() -> Callable[[str], Any]:
    """Run Python code in the drills' environment; what it prints last, as JSON, is the answer."""
    try:
        found = environment.find()
    except environment.NotPrepared as error:
        pytest.skip(str(error))
    if not found.bridge:
        pytest.skip("Megatron Bridge is not installed: it needs Python 3.12")
    variables = {**os.environ, "PYTHONPATH": str(Path(stack.__file__).resolve().parents[2])}

    def ask(code: str) -> Any:
        done = subprocess.run([str(found.python), "-c", code], env=variables, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return ask
