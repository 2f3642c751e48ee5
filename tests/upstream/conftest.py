# SPDX-License-Identifier: Apache-2.0
"""Small upstream packages made for a test, and the real ones where the drills' environment is there."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any, Callable, Mapping

import pytest

from mbridge_resiliency.cli import cache_dir
from mbridge_resiliency.facts import Fact
from mbridge_resiliency.upstream import sources, verify
from mbridge_resiliency.upstream.sources import Package, Release
from mbridge_resiliency.upstream.symbols import Symbols
from mbridge_resiliency.upstream.verify import Verdict

#: Found before any test moves the cache.
ENVIRONMENTS = {
    path.parts[-4].removeprefix("drills-nvrx-"): path
    for path in cache_dir().glob("drills-nvrx-*/lib/python3.*/site-packages")
}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "download: fetches a wheel from the package index")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own."""
    monkeypatch.setenv("MBRIDGE_RESILIENCY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def make_wheel(tmp_path: Path) -> Callable[..., Path]:
    """Write a wheel: make_wheel("nemo-run", "0.11.1", {"nemo_run/a.py": "..."}) -> its path."""

    def make(
        name: str,
        version: str,
        files: Mapping[str, str],
        metadata: str = "",
        scripts: str = "",
        tag: str = "py3-none-any",
        into: Path | None = None,
    ) -> Path:
        stem = f"{name.replace('-', '_')}-{version}"
        folder = into or tmp_path / "made"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{stem}-{tag}.whl"
        everything = {
            sources.KNOWN[name]: "",
            **files,
            f"{stem}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{metadata}",
            f"{stem}.dist-info/WHEEL": f"Wheel-Version: 1.0\nTag: {tag}\n",
        }
        if scripts:
            everything[f"{stem}.dist-info/entry_points.txt"] = scripts
        with zipfile.ZipFile(path, "w") as archive:
            for place, text in everything.items():
                archive.writestr(place, text)
        return path

    return make


@pytest.fixture
def make_release(make_wheel: Callable[..., Path]) -> Callable[..., Release]:
    """A release of made packages: make_release({"nemo-run": {"nemo_run/a.py": "..."}}); every version is 1.0.0."""

    def make(packages: Mapping[str, Mapping[str, str]], **more: Any) -> Release:
        made: dict[str, Package] = {
            name: sources.Wheel(make_wheel(name, "1.0.0", files, **more)) for name, files in packages.items()
        }
        return Release(str(next(iter(made.values()))), made)

    return make


def make_fact(kind: str, says: Mapping[str, Any], source: Mapping[str, Any], **more: Any) -> Fact:
    """A fact about NVRx, of no range unless `holds` is given."""
    return Fact(id="a.fact", kind=kind, says=says, holds=more.pop("holds", {}), source=source, **more)


@pytest.fixture
def check(make_release: Callable[..., Release]) -> Callable[..., Verdict]:
    """The verdict on one statement about a made file nvidia_resiliency_ext/a.py."""

    def one(
        text: str, kind: str, says: Mapping[str, Any], symbol: str = "", path: str = "a.py", **source: Any
    ) -> Verdict:
        place = f"nvidia_resiliency_ext/{path}"
        release = make_release({"nvidia-resiliency-ext": {place: text}})
        shown_by = source.pop("shown_by", None)
        full = {"package": "nvidia-resiliency-ext", "file": place, **({"symbol": symbol} if symbol else {}), **source}
        return verify.verify(make_fact(kind, says, full, shown_by=shown_by), Symbols(release))

    return one


@pytest.fixture(scope="session")
def real() -> Callable[[str], Path]:
    """The site-packages of a real NVRx, Bridge and megatron-core beside it; or a skip that says what is missing."""

    def path(nvrx: str = "0.7.0", bridge: bool = False) -> Path:
        found = ENVIRONMENTS.get(nvrx)
        if found is None:
            pytest.skip(
                f"the environment of the drills with NVRx {nvrx} is not installed (setup.sh drills --nvrx {nvrx})"
            )
        if bridge and not (found / "megatron/bridge").is_dir():
            pytest.skip("Megatron Bridge is not installed: it needs Python 3.12")
        return found

    return path
