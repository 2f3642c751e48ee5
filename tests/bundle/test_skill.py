# SPDX-License-Identifier: Apache-2.0
"""SKILL.md is what clients accept, and short enough to be read."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import bundle

#: Characters a token, counted low on purpose: tables, paths and options make more tokens than prose does.
CHARACTERS_A_TOKEN = 3.5
SECTIONS = (
    "Purpose",
    "Prerequisites",
    "Instructions",
    "Available Scripts",
    "Examples",
    "Limitations",
    "Troubleshooting",
    "References",
)


def test_front_matter_has_the_keys_that_every_client_accepts() -> None:
    keys = set(bundle.front_matter())
    assert {"name", "description", "license", "metadata"} <= keys
    assert keys <= {"name", "description", "license", "metadata", "allowed-tools"}
    tools = bundle.front_matter().get("allowed-tools", "")
    assert isinstance(tools, str) and ("," in tools or " " not in tools), "allowed-tools: separated by commas"


def test_name_license_and_version_are_the_projects() -> None:
    from mbridge_resiliency import __version__

    front = bundle.front_matter()
    assert front["name"] == bundle.NAME
    assert front["license"] == "Apache-2.0"
    assert front["metadata"]["version"] == __version__
    assert re.fullmatch(r".+ <\S+@\S+>", front["metadata"]["author"])
    assert all(isinstance(value, str) for value in front["metadata"].values())


def test_description_fits_every_clients_listing() -> None:
    assert 250 <= len(bundle.front_matter()["description"]) <= 450


def test_sections() -> None:
    assert re.findall(r"^## (.+)$", bundle.body(), re.MULTILINE) == list(SECTIONS)


def test_length() -> None:
    text = (bundle.ROOT / "SKILL.md").read_text(encoding="utf-8")
    assert text.count("\n") < 250
    assert len(text) / CHARACTERS_A_TOKEN < 3000


def test_scripts_are_in_the_table() -> None:
    """Whoever reads only SKILL.md knows every command that answers a user's question."""
    section = bundle.body().split("## Available Scripts")[1].split("\n## ")[0]
    named = set(re.findall(r"scripts/([\w.]+)", section))
    upkeep = {"publish.py", "benchmark.py", "test.sh"}
    there = {Path(name).name for name in bundle.tracked() if re.fullmatch(r"scripts/[^/]+", name)}
    assert named == there - upkeep


def test_reference_validator_accepts_it(tmp_path: Path) -> None:
    copy = bundle.committed_copy(tmp_path)
    validator = Path(sys.executable).with_name("agentskills")
    done = subprocess.run([str(validator), "validate", str(copy)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
