# SPDX-License-Identifier: Apache-2.0
"""Getting uv, without root, from whatever the machine has, and giving uv the package index that pip is set to.

uv is looked for on PATH, then installed into the cache folder by the first that works: `python3 -m pip`, the pip
of a new virtual environment, or the pip wheel in the distribution's own package archive (Debian and Ubuntu ship
python3 without pip and venv).
"""

from __future__ import annotations

import configparser
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Callable, Iterator, Mapping

from .. import cli

REQUIREMENT = Path(__file__).parent / "requirements" / "uv.txt"
#: the oldest uv that knows the options used here
OLDEST_UV = (0, 9)
#: pip's setting -> the environment variable that says the same to uv
PIP_TO_UV = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "trusted-host": "UV_INSECURE_HOST",
    "cert": "SSL_CERT_FILE",
}
#: where Linux distributions keep the certificates that the machine's owner trusts
CERTIFICATES = (Path("/etc/ssl/certs"), Path("/etc/ssl/cert.pem"), Path("/etc/pki/tls/certs"))
#: as uv separates several values of one variable
SEPARATOR = {"UV_FIND_LINKS": ","}


def find_uv() -> Path | None:
    """uv on PATH or in the cache folder, if it starts and is new enough."""
    for candidate in (shutil.which("uv"), cli.cache_dir() / "uv" / "bin" / "uv"):
        if candidate and (_uv_version(Path(candidate)) or (0, 0)) >= OLDEST_UV:
            return Path(candidate)
    return None


def install_uv(say: Callable[[str], None]) -> Path:
    """Install uv into the cache folder. The caller holds the set-up's lock.

    Raises:
        cli.InputError: no way worked; the message has each way's last line.
    """
    target = cli.cache_dir() / "uv"
    tried: list[str] = []
    with tempfile.TemporaryDirectory(dir=cli.cache_dir(), prefix="bootstrap-") as scratch:
        for name, pip_command in _WAYS.items():
            try:
                pip = pip_command(Path(scratch))
                say(f"no uv on PATH: installing it with {name} (25 MB)")
                part = Path(scratch) / "uv"
                arguments = [
                    "install",
                    "--quiet",
                    "--target",
                    str(part),
                    "--no-deps",
                    "--requirement",
                    str(REQUIREMENT),
                ]
                _quiet([*pip, *arguments])
            except (OSError, subprocess.CalledProcessError) as error:
                output = getattr(error, "stdout", None) or str(error)
                tried.append(f"{name}: {output.strip().splitlines()[-1]}")
                continue
            shutil.rmtree(target, ignore_errors=True)
            part.rename(target)
            return target / "bin" / "uv"
    ways = "\n  ".join(tried)
    raise cli.InputError(f"uv could not be installed:\n  {ways}\nInstall uv by any means and run this again.")


def _own_pip(scratch: Path) -> list[str]:
    command = [sys.executable, "-m", "pip"]
    _quiet([*command, "--version"])
    return command


def _venv_pip(scratch: Path) -> list[str]:
    _quiet([sys.executable, "-m", "venv", str(scratch / "venv")])
    return [str(scratch / "venv" / "bin" / "python"), "-m", "pip"]


def _archive_pip(scratch: Path) -> list[str]:
    """pip from the wheel that the distribution keeps for venv, fetched by apt with state folders of its own."""
    state, cache = scratch / "state", scratch / "cache"
    (state / "lists" / "partial").mkdir(parents=True)
    (cache / "archives" / "partial").mkdir(parents=True)
    options = {
        "Dir::State": state,
        "Dir::State::status": "/var/lib/dpkg/status",
        "Dir::Cache": cache,
        "Debug::NoLocking": "true",
        "APT::Sandbox::User": "",
    }
    apt = ["apt-get", "--quiet", *(part for key, value in options.items() for part in ("-o", f"{key}={value}"))]
    _quiet([*apt, "update"], cwd=scratch)
    _quiet([*apt, "download", "python3-pip-whl"], cwd=scratch)
    (package,) = scratch.glob("python3-pip-whl_*.deb")
    _quiet(["dpkg-deb", "--extract", str(package), str(scratch / "package")])
    (wheel,) = (scratch / "package" / "usr" / "share" / "python-wheels").glob("pip-*.whl")
    return [sys.executable, str(wheel / "pip")]


_WAYS: Mapping[str, Callable[[Path], list[str]]] = {
    "python3 -m pip": _own_pip,
    "python3 -m venv": _venv_pip,
    "pip's wheel from the distribution's archive": _archive_pip,
}


def uv_environment(cache: Path) -> dict[str, str]:
    """The environment for uv: its cache in the cache folder, and pip's package index, certificates and proxies.

    What the user has set for uv itself stays.
    """
    environment = dict(os.environ)
    defaults = {"UV_CACHE_DIR": str(cache / "uv-cache"), "UV_NO_PROGRESS": "1"}
    if any(store.exists() for store in CERTIFICATES):
        defaults["UV_SYSTEM_CERTS"] = "1"  # a machine without a store keeps to uv's own
    for setting, values in _pip_settings().items():
        variable = PIP_TO_UV[setting]
        defaults[variable] = SEPARATOR.get(variable, " ").join(values)
        if setting == "extra-index-url":
            defaults["UV_INDEX_STRATEGY"] = "unsafe-best-match"  # as pip treats several indexes
    for name, value in defaults.items():
        environment.setdefault(name, value)
    environment["UV_PYTHON_INSTALL_DIR"] = str(cache / "python")
    for name in ("UV_TARGET", "UV_PREFIX", "UV_PYTHON", "UV_SYSTEM_PYTHON", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"):
        environment.pop(name, None)
    return environment


def _pip_settings() -> dict[str, list[str]]:
    """pip's settings that uv needs, from its files and environment variables; the later ones win."""
    settings: dict[str, list[str]] = {}
    for path in _pip_files():
        parser = configparser.RawConfigParser()
        try:
            parser.read(path, encoding="utf-8")
        except (configparser.Error, UnicodeDecodeError):
            continue
        for section in ("global", "install"):
            for name in PIP_TO_UV:
                if parser.has_option(section, name):
                    settings[name] = parser.get(section, name).split()
    for name in PIP_TO_UV:
        if value := os.environ.get(f"PIP_{name.replace('-', '_').upper()}"):
            settings[name] = value.split()
    return settings


def _pip_files() -> Iterator[Path]:
    base = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    yield from (Path("/etc/pip.conf"), Path.home() / ".pip" / "pip.conf", base / "pip" / "pip.conf")
    if named := os.environ.get("PIP_CONFIG_FILE"):
        yield Path(named)


def _uv_version(uv: Path) -> tuple[int, ...] | None:
    try:
        words = subprocess.run([str(uv), "--version"], capture_output=True, text=True, timeout=20).stdout.split()
        return tuple(map(int, words[1].split(".")[:2]))
    except (OSError, ValueError, IndexError, subprocess.TimeoutExpired):
        return None


def _quiet(command: list[str], cwd: Path | None = None) -> None:
    """Run to the end without a word; CalledProcessError has the output."""
    environment = {**os.environ, "PIP_USER": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    subprocess.run(
        command,
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=True,
    )
