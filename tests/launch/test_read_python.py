# SPDX-License-Identifier: Apache-2.0
"""Python files: the settings that they certainly make, and those that only may be made."""

from __future__ import annotations

import pytest

from mbridge_resiliency.launch.model import HOLE, MISSING
from mbridge_resiliency.launch.read.python import read_python

HEAD = "from megatron.bridge.training.config import *\n"


def setting(body: str, name: str = "checkpoint.save") -> tuple[object, bool]:
    found = [item for item in read_python("train.py", HEAD + body).settings if item.name == name][-1]
    return found.value, found.certain


@pytest.mark.parametrize(
    "body",
    [
        'cfg.checkpoint.save = "/a/b"',
        'ROOT = "/a"\ncfg.checkpoint.save = f"{ROOT}/b"',
        'import os\ncfg.checkpoint.save = os.path.join("/a", "b")',
        'from pathlib import Path\ncfg.checkpoint.save = str(Path("/a") / "b")',
        'cfg = ConfigContainer(checkpoint=CheckpointConfig(save="/a/b"))',
        'self.cfg.checkpoint.save = "/a/b"',
        'ckpt = CheckpointConfig()\nckpt.save = "/a/b"',
        'cfg.checkpoint.save: str = "/a/b"',
        'if __name__ == "__main__":\n    cfg.checkpoint.save = "/a/b"',
    ],
)
def test_a_value_is_followed(body: str) -> None:
    assert setting(body) == ("/a/b", True)


@pytest.mark.parametrize(
    "body",
    [
        "cfg.checkpoint.save = args.save",
        'import os\ncfg.checkpoint.save = os.environ["SAVE"]',
        "def f(s):\n    c.checkpoint.save = s",
    ],
)
def test_an_argument_is_unknown(body: str) -> None:
    assert setting(body) == (HOLE, True)


def test_a_branch_is_uncertain() -> None:
    assert setting('if x:\n    cfg.checkpoint.save = "/a"') == ("/a", False)


def test_a_constructor_leaves_defaults() -> None:
    assert setting("cfg.checkpoint = CheckpointConfig()") == (MISSING, True)
    assert setting("cfg.checkpoint = CheckpointConfig(**more)") == (HOLE, True)


def test_a_name_bound_twice_is_unknown() -> None:
    assert setting('A = "/a"\nA = "/b"\ncfg.checkpoint.save = A') == (HOLE, True)
