# SPDX-License-Identifier: Apache-2.0
"""The tracked tree: what every user installs."""

from __future__ import annotations

import ast
import gzip
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import tomllib

import bundle

TRACKED = bundle.tracked()
SOURCES = [
    name for name in TRACKED if Path(name).suffix in {".py", ".sh", ".toml", ".sbatch", ".yaml"} or name == ".ci/run"
]
PYTHON = [name for name in TRACKED if name.endswith(".py")]
SHELL = [name for name in TRACKED if Path(name).suffix in {".sh", ".sbatch"} or name == ".ci/run"]
#: Files of others' making that tests read as they are; a licence line would change what they are.
FIXTURES = re.compile(r"tests/.+/(cases|fixtures|data|inputs|upstream)/")

#: What must not stand in a tracked file, in parts so that this file does not have it. Registry hosts, and paths of
#: machines that this was made on.
FORBIDDEN = re.compile(
    "|".join(
        [
            r"py" + r"pi\.org",
            r"python" + r"hosted",
            r"registry\.npm" + r"js",
            r"npm" + r"js\.(?:org|com)",
            r"deb\." + r"debian\.org",
            r"archive\." + r"ubuntu\.com",
            r"(?<![\w.])/wo" + r"rk/",
            r"/ro" + r"ot/",
            r"/tmp/dri" + r"lls-",
            r"/tm" + r"p/w/",
        ]
    )
)


def test_there_is_something_to_test() -> None:
    assert {"SKILL.md", "README.md", "LICENSE", "scripts/setup.sh"} <= set(TRACKED)
    assert len(PYTHON) > 20


def test_every_source_names_its_licence() -> None:
    assert not [name for name in SOURCES if not FIXTURES.match(name) and not _names_licence(name)]


def test_licence_is_whole() -> None:
    text = (bundle.ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Version 2.0, January 2004" in text and "END OF TERMS AND CONDITIONS" in text


def test_one_skill_and_no_name_that_installers_drop() -> None:
    names = [Path(name).name for name in TRACKED]
    assert [name for name in TRACKED if Path(name).name.lower() == "skill.md"] == ["SKILL.md"]
    assert "metadata.json" not in names
    assert not [name for name in TRACKED if "__pycache__" in name or (bundle.ROOT / name).is_symlink()]


def test_tree_is_small() -> None:
    sizes = {name: (bundle.ROOT / name).stat().st_size for name in TRACKED}
    assert sum(sizes.values()) < 5_000_000, sorted(sizes, key=lambda name: sizes[name])[-5:]


def test_ci_entry_is_no_hidden_executable() -> None:
    path = bundle.ROOT / ".ci" / "run"
    assert not path.stat().st_mode & 0o111
    text = path.read_text(encoding="utf-8")
    assert not text.startswith("#!")
    assert "bash scripts/test.sh" in text


@pytest.mark.parametrize("name", [name for name in TRACKED if re.fullmatch(r"scripts/[^/]+\.(py|sh)", name)])
def test_command_can_be_started(name: str) -> None:
    path = bundle.ROOT / name
    assert os.access(path, os.X_OK)
    assert path.read_text(encoding="utf-8").startswith(("#!/usr/bin/env python3\n", "#!/usr/bin/env bash\n"))


def test_no_machine_and_no_registry_is_named() -> None:
    found = []
    for name in [*bundle.text_files(), *(name for name in TRACKED if name.endswith(".gz"))]:
        data = (bundle.ROOT / name).read_bytes()
        text = (gzip.decompress(data) if name.endswith(".gz") else data).decode(errors="replace")
        for number, line in enumerate(text.splitlines(), 1):
            found += [f"{name}:{number}: {hit[0]}" for hit in FORBIDDEN.finditer(line)]
    assert not found


def test_python_3_10_can_read_every_module() -> None:
    for name in PYTHON:
        ast.parse((bundle.ROOT / name).read_text(encoding="utf-8"), filename=name, feature_version=(3, 10))


def test_ruff_finds_nothing() -> None:
    command = [_program("ruff"), "check", "--no-cache", "--output-format=concise", str(bundle.ROOT)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", [name for name in SHELL if not name.startswith("tests/")])
def test_shellcheck_finds_nothing(name: str) -> None:
    program = _program("shellcheck")
    if not Path(program).exists():
        pytest.skip("shellcheck has no wheel for this machine")
    done = subprocess.run([program, str(bundle.ROOT / name)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_project_metadata_agrees_with_the_code() -> None:
    from mbridge_resiliency import __version__, cli

    project = tomllib.loads((bundle.ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == __version__
    assert project["dependencies"] == list(cli.CHECKER_LIBRARIES.values())
    assert f"## {__version__}" in (bundle.ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def _names_licence(name: str) -> bool:
    first = (bundle.ROOT / name).read_text(encoding="utf-8").splitlines()[:3]
    line = next((line for line in first if not line.startswith("#!")), "")
    return line == "# SPDX-License-Identifier: Apache-2.0"


def _program(name: str) -> str:
    return str(Path(sys.executable).with_name(name))
