# SPDX-License-Identifier: Apache-2.0
"""setup.sh: what it makes, what it uses again, what it never takes for ready."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

import bundle
from mbridge_resiliency import cli
from mbridge_resiliency.environments import bootstrap, install, interpreters

SETUP = bundle.ROOT / "scripts" / "setup.sh"


def setup(cache: Path, cwd: Path | None = None) -> subprocess.Popen[str]:
    """Start `setup.sh checkers`, the smallest environment, with this cache folder."""
    environment = {**os.environ, "MBRIDGE_RESILIENCY_CACHE": str(cache)}
    pipe = subprocess.PIPE
    return subprocess.Popen(
        ["bash", str(SETUP), "checkers"], cwd=cwd, env=environment, stdout=pipe, stderr=pipe, text=True
    )


def finish(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Wait for a run that must succeed; its output and its messages."""
    output, messages = process.communicate(timeout=300)
    assert process.returncode == 0, messages
    return output.strip(), messages


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder with the checkers' environment, made by two runs at once."""
    folder = tmp_path_factory.mktemp("cache")
    both = [finish(process) for process in [setup(folder), setup(folder)]]
    python = folder / "checkers" / "bin" / "python"
    assert [output for output, _ in both] == [str(python)] * 2
    assert sum("installing checkers into" in messages for _, messages in both) == 1
    assert sum("another set-up is at work" in messages for _, messages in both) == 1
    return folder


@pytest.mark.install
def test_made_environment_has_the_libraries(cache: Path) -> None:
    modules = ", ".join(cli.CHECKER_LIBRARIES)
    subprocess.run([str(cache / "checkers" / "bin" / "python"), "-c", f"import {modules}"], check=True)


@pytest.mark.install
def test_ready_environment_is_used_again_without_a_word(cache: Path, tmp_path: Path) -> None:
    """From a folder whose own modules must not be imported."""
    (tmp_path / "platform.py").write_text("raise SystemExit('imported from the project')\n")
    before = (cache / "checkers" / install.STAMP).stat().st_mtime_ns
    output, messages = finish(setup(cache, cwd=tmp_path))
    assert output == str(cache / "checkers" / "bin" / "python")
    assert not messages
    assert (cache / "checkers" / install.STAMP).stat().st_mtime_ns == before


@pytest.mark.install
@pytest.mark.parametrize("stamp", [None, "", '{"key": "of another list"}'])
def test_half_made_or_outdated_environment_is_made_again(cache: Path, stamp: str | None) -> None:
    path = cache / "checkers" / install.STAMP
    path.unlink()
    if stamp is not None:
        path.write_text(stamp)
    (cache / "checkers" / "bin" / "python").unlink()
    leftover = cache / "uv-cache" / ".tmpleft"
    leftover.mkdir()
    _, messages = finish(setup(cache))
    assert not leftover.exists()
    assert "checkers ready in" in messages
    assert json.loads(path.read_text())["key"] == install.CHECKERS.key()


@pytest.mark.install
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGKILL])
def test_interrupted_run_is_taken_up_again(tmp_path: Path, signum: signal.Signals) -> None:
    process = setup(tmp_path)
    assert process.stderr is not None
    assert "installing checkers into" in process.stderr.readline()
    time.sleep(1)
    process.send_signal(signum)
    process.communicate(timeout=60)
    assert process.returncode in (128 + signum, -signum)
    assert not (tmp_path / "checkers" / install.STAMP).exists()
    finish(setup(tmp_path))


def test_pip_settings_are_given_to_uv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*os.environ]:
        if name.startswith(("PIP_", "UV_")) or name == "SSL_CERT_FILE":
            monkeypatch.delenv(name)
    conf = tmp_path / "pip.conf"
    conf.write_text("[global]\nindex-url = http://10.0.0.1/simple\nfind-links =\n    /a\n    /b\ncert = /ca.pem\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(conf))
    monkeypatch.setenv("PIP_TRUSTED_HOST", "10.0.0.1")
    monkeypatch.setattr(bootstrap, "_pip_files", lambda: iter([conf]))
    environment = bootstrap.uv_environment(tmp_path)
    assert environment["UV_DEFAULT_INDEX"] == "http://10.0.0.1/simple"
    assert environment["UV_FIND_LINKS"] == "/a,/b"
    assert environment["UV_INSECURE_HOST"] == "10.0.0.1"
    assert environment["SSL_CERT_FILE"] == "/ca.pem"
    assert "UV_INDEX" not in environment
    monkeypatch.setenv("PIP_INDEX_URL", "http://10.0.0.2/simple")
    assert bootstrap.uv_environment(tmp_path)["UV_DEFAULT_INDEX"] == "http://10.0.0.2/simple"
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://10.0.0.3/simple")
    assert bootstrap.uv_environment(tmp_path)["UV_DEFAULT_INDEX"] == "http://10.0.0.3/simple"


def test_a_shim_that_does_not_start_hides_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shims, real = tmp_path / "shims", tmp_path / "real"
    for folder, text in ((shims, "#!/bin/sh\nexit 127\n"), (real, "#!/bin/sh\necho 3 99\n")):
        folder.mkdir()
        (folder / "python3.99").write_text(text)
        (folder / "python3.99").chmod(0o755)
    monkeypatch.setenv("PATH", f"{shims}{os.pathsep}{real}")
    assert interpreters.find((3, 99)) == real / "python3.99"
    assert interpreters.find((3, 98)) is None


@pytest.mark.parametrize("folder", ["versions/3.99.1", "uv/python/cpython-3.99.1"])
def test_pyenv_and_uvs_own_are_searched(folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = tmp_path / folder / "bin" / "python3.99"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\necho 3 99\n")
    python.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert interpreters.find((3, 99)) == python


@pytest.mark.parametrize(("version", "told"), [("2.36", True), ("2.39", False), ("2.41", False)])
def test_older_glibc_is_told_and_got_round(
    version: str, told: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(install.platform, "libc_ver", lambda: ("glibc", version))
    options = install._platform(install.with_bridge("0.7.0"))
    assert [option.partition("-manylinux")[2] for option in options[1:]] == (["_2_39"] if told else [])
    assert (version in capsys.readouterr().err) is told
    assert install._platform(install.CHECKERS) == []


def test_without_python_3_12_nvrx_alone_is_made_and_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    made = []
    monkeypatch.setenv("MBRIDGE_RESILIENCY_CACHE", str(tmp_path))
    monkeypatch.setattr(install.interpreters, "find", lambda version: None if version == (3, 12) else Path("python"))
    monkeypatch.setattr(install, "_download_python", lambda: None)
    monkeypatch.setattr(install, "make", lambda environment, python: made.append((environment, python())))
    install.prepare_drills("0.7.0")
    assert made == [(install.NVRX_ALONE, Path("python"))]
    assert "NVRx 0.6.0 alone, without Bridge" in capsys.readouterr().err
    assert "bridge.txt" not in install.NVRX_ALONE.requirements


def test_full_disk_is_told_before_the_download(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MBRIDGE_RESILIENCY_CACHE", str(tmp_path))
    monkeypatch.setattr(install.shutil, "disk_usage", lambda folder: type("Usage", (), {"free": 1 << 30}))
    with pytest.raises(cli.InputError, match="1.0 GB free and drills-nvrx-0.7.0 needs 4.7 GB more"):
        install.make(install.with_bridge("0.7.0"), interpreters.running)


def test_a_failing_step_shows_its_last_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MBRIDGE_RESILIENCY_CACHE", str(tmp_path))
    with pytest.raises(cli.InputError, match="(?s)installing x failed.*ended with 7.*no such package"):
        install._run(["sh", "-c", "echo no such package; exit 7"], "installing x")


def test_every_pin_is_one_that_the_checkers_allow() -> None:
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    pins = {}
    for line in (install.REQUIREMENTS / "checkers.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            name, _, version = line.partition("==")
            pins[canonicalize_name(name)] = version
    for text in cli.CHECKER_LIBRARIES.values():
        wanted = Requirement(text)
        assert wanted.specifier.contains(pins.pop(canonicalize_name(wanted.name)))
    assert not pins
