# SPDX-License-Identifier: Apache-2.0
"""What the bundle's tests share: the files that would be committed, and a clone with just them."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
NAME = "nemo-mbridge-resiliency"


def tracked() -> list[str]:
    """Paths from the root of every file that a commit of the working tree would have."""
    listed = git(ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    return sorted(name for name in listed if name and (ROOT / name).exists())


def text_files() -> list[str]:
    """The tracked files that are text."""
    return [name for name in tracked() if b"\0" not in (ROOT / name).read_bytes()[:8192]]


def committed_copy(folder: Path) -> Path:
    """A repository in folder, named as the skill, whose one commit is the working tree's state."""
    copy = folder / NAME
    for name in tracked():
        target = copy / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((ROOT / name).read_bytes())
        target.chmod((ROOT / name).stat().st_mode & 0o777)
    git(copy, "init", "--quiet")
    git(copy, "add", "--all", "--force")
    git(copy, "-c", "user.name=test", "-c", "user.email=test@localhost", "commit", "--quiet", "--message=state")
    return copy


def git(folder: Path, *arguments: str) -> str:
    """Output of a git command; CalledProcessError if it fails. Works in a clone that another user owns."""
    command = ["git", "-c", "safe.directory=*", "-C", str(folder), *arguments]
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def front_matter() -> dict[str, Any]:
    """SKILL.md's front matter."""
    import yaml

    return yaml.safe_load(_parts()[0])


def body() -> str:
    """SKILL.md without its front matter."""
    return _parts()[1]


def _parts() -> tuple[str, str]:
    match = re.match(r"---\n(.*?)\n---\n(.*)", (ROOT / "SKILL.md").read_text(encoding="utf-8"), re.DOTALL)
    assert match, "SKILL.md does not begin with front matter"
    return match[1], match[2]
