# SPDX-License-Identifier: Apache-2.0
"""Upstream packages as text. Each has a name, a version, a list of files and a way to read one; none is imported."""

from __future__ import annotations

import email.parser
import importlib.metadata
import io
import json
import os
import re
import subprocess
import sys
import urllib.parse
import urllib.request
import zipfile
import zlib
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Iterator, Mapping, Sequence

from packaging.version import VERSION_PATTERN

from ..cli import InputError

#: distribution -> a file that every version of it has, as installed. Order is the order of printing.
KNOWN = {
    "megatron-bridge": "megatron/bridge/__init__.py",
    "megatron-core": "megatron/core/__init__.py",
    "nvidia-resiliency-ext": "nvidia_resiliency_ext/__init__.py",
    "nemo-run": "nemo_run/__init__.py",
}
#: Read where an environment has it; never downloaded.
INSTALLED_ONLY = ("torch",)
#: Of a source tree that does not say its version.
UNKNOWN_VERSION = "0"


class Package:
    """One distribution's files as text, under the paths they are installed to.

    Attributes:
        name: distribution name.
        version: as its metadata or source says.
        origin: where it was read from, for people.
    """

    name: str
    version: str
    origin: str

    def __str__(self) -> str:
        return f"{self.name} {self.version}"

    def has(self, path: str) -> bool:
        """True if the package has this file."""
        raise NotImplementedError

    def read(self, path: str) -> bytes:
        """The file's bytes. Raises FileNotFoundError."""
        raise NotImplementedError

    @cached_property
    def files(self) -> frozenset[str]:
        """Every file's path."""
        raise NotImplementedError

    def metadata(self) -> Mapping[str, list[str]]:
        """Header -> values of the built metadata (METADATA, and Tag of WHEEL). Empty where nothing was built."""
        return {}

    def entry_points(self) -> Mapping[str, str]:
        """Console script -> target. Raises FileNotFoundError where nothing was built."""
        raise FileNotFoundError("entry_points.txt")

    def leaves_out(self, path: str) -> bool:
        """True if a file is of the repository's own parts (examples/, README.md) and none of those is here."""
        top, separator, _ = path.partition("/")
        if separator:
            return not any(name.startswith(f"{top}/") for name in self.files)
        return not any("/" not in name and not name.endswith((".py", ".pth", ".so")) for name in self.files)

    def text(self, path: str) -> str:
        """The file as text; bytes that are no UTF-8 are replaced."""
        return self.read(path).decode("utf-8", errors="replace")


def _headers(*texts: str) -> dict[str, list[str]]:
    headers: dict[str, list[str]] = {}
    for text in texts:
        for name, value in email.parser.Parser().parsestr(text, headersonly=True).items():
            headers.setdefault(name, []).append(value)
    return headers


def _console_scripts(text: str) -> dict[str, str]:
    section, scripts = "", {}
    for line in text.splitlines():
        if line.startswith("["):
            section = line.strip("[] ")
        elif section == "console_scripts" and "=" in line:
            name, _, target = line.partition("=")
            scripts[name.strip()] = target.strip()
    return scripts


class Wheel(Package):
    """A wheel file."""

    def __init__(self, path: Path) -> None:
        distribution, self.version = path.name.split("-")[:2]
        self.name = distribution.replace("_", "-").lower()
        self.origin = str(path)
        try:
            self._zip = zipfile.ZipFile(path)
        except (OSError, zipfile.BadZipFile) as error:
            raise InputError(f"{path} is not a readable wheel ({error}); delete it and use --download") from error
        self._info = next((n.split("/")[0] for n in self._zip.namelist() if ".dist-info/" in n), "")

    @cached_property
    def files(self) -> frozenset[str]:
        return frozenset(name for name in self._zip.namelist() if not name.endswith("/"))

    def has(self, path: str) -> bool:
        return path in self._zip.NameToInfo

    def read(self, path: str) -> bytes:
        if not self.has(path):
            raise FileNotFoundError(path)
        try:
            return self._zip.read(path)
        except (OSError, zipfile.BadZipFile, zlib.error) as error:
            raise InputError(f"{self.origin} is damaged ({error}); delete it and use --download") from error

    def metadata(self) -> Mapping[str, list[str]]:
        return _headers(self.text(f"{self._info}/METADATA"), self.text(f"{self._info}/WHEEL"))

    def entry_points(self) -> Mapping[str, str]:
        return _console_scripts(self.text(f"{self._info}/entry_points.txt"))


class Installed(Package):
    """An installed distribution, found by its metadata on a list of paths."""

    def __init__(self, distribution: importlib.metadata.Distribution, name: str) -> None:
        self.name, self.version = name, distribution.version
        self._distribution = distribution
        self._base = Path(str(distribution.locate_file("")))
        self.origin = str(self._base)

    @cached_property
    def files(self) -> frozenset[str]:
        listed = frozenset(str(path) for path in self._distribution.files or ())
        return listed or TreeFiles(self._base).names

    def has(self, path: str) -> bool:
        # Other distributions share the folder, and may be shadowed by a newer copy elsewhere: only what is its own.
        return path in self.files and (self._base / path).is_file()

    def read(self, path: str) -> bytes:
        return (self._base / path).read_bytes()

    def metadata(self) -> Mapping[str, list[str]]:
        return _headers(*(self._distribution.read_text(name) or "" for name in ("METADATA", "WHEEL")))

    def entry_points(self) -> Mapping[str, str]:
        return _console_scripts(self._distribution.read_text("entry_points.txt") or "")


class Tree(Package):
    """One package inside a source tree: a folder, or a revision of a git repository.

    Paths are those of the installed package; paths of the repository (`examples/...`) work as well.
    """

    def __init__(self, name: str, files: TreeFiles, prefix: str) -> None:
        self.name, self._tree, self._prefix = name, files, prefix
        self.origin = files.origin
        self.version = _source_version(self)

    @cached_property
    def files(self) -> frozenset[str]:
        return frozenset(path.removeprefix(self._prefix) for path in self._tree.names)

    def _place(self, path: str) -> str:
        inside = self._prefix + path
        return inside if self._tree.has(inside) else path

    def has(self, path: str) -> bool:
        return self._tree.has(self._place(path))

    def read(self, path: str) -> bytes:
        return self._tree.read(self._place(path))

    def entry_points(self) -> Mapping[str, str]:
        """From pyproject.toml's tables of scripts."""
        found = re.search(
            r"^\[(?:project|tool\.poetry)\.scripts\]\n((?:[^\[].*\n|\n)*)", self.text("pyproject.toml"), re.M
        )
        pairs = re.findall(r"""^["']?([\w.-]+)["']?\s*=\s*["']([^"']+)["']""", found.group(1) if found else "", re.M)
        return dict(pairs)


class TreeFiles:
    """The files of a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.origin = str(folder)

    @cached_property
    def names(self) -> frozenset[str]:
        found = []
        for place, folders, files in os.walk(self._folder):
            folders[:] = [name for name in folders if name not in (".git", "__pycache__", "node_modules")]
            base = os.path.relpath(place, self._folder)
            found += [name if base == "." else f"{base}/{name}" for name in files]
        return frozenset(found)

    def has(self, path: str) -> bool:
        return (self._folder / path).is_file()

    def read(self, path: str) -> bytes:
        return (self._folder / path).read_bytes()


class GitFiles(TreeFiles):
    """The files of a git revision, read from the object store; there may be no work tree."""

    def __init__(self, folder: Path, revision: str) -> None:
        self._folder = folder
        listing = self._git("ls-tree", "-r", "-z", "--name-only", "--full-tree", revision)
        if listing.returncode:
            said = listing.stderr.decode(errors="replace").strip()
            raise InputError(f"{folder}: git has no revision {revision!r} there ({said})")
        self._revision = self._git("rev-parse", f"{revision}^{{commit}}").stdout.decode().strip()
        self.origin = f"{folder}@{revision} ({self._revision[:12]})"
        self._names = frozenset(listing.stdout.decode("utf-8", errors="replace").split("\0")) - {""}
        self._reader: subprocess.Popen[bytes] | None = None

    def _git(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        try:
            return subprocess.run(["git", "-C", str(self._folder), *arguments], capture_output=True, check=False)
        except OSError as error:
            raise InputError(f"git cannot be started ({error}); --checkout DIR without @REV needs none") from error

    @property
    def names(self) -> frozenset[str]:  # type: ignore[override]
        return self._names

    def has(self, path: str) -> bool:
        return path in self._names

    def read(self, path: str) -> bytes:
        if path not in self._names:
            raise FileNotFoundError(path)
        if self._reader is None:
            command = ["git", "-C", str(self._folder), "cat-file", "--batch"]
            self._reader = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._reader.stdin and self._reader.stdout
        self._reader.stdin.write(f"{self._revision}:{path}\n".encode())
        self._reader.stdin.flush()
        header = self._reader.stdout.readline().split()
        if header[1:2] != [b"blob"]:
            raise FileNotFoundError(path)
        body = self._reader.stdout.read(int(header[2]))
        self._reader.stdout.read(1)
        return body


def _source_version(package: Package) -> str:
    """The revision where it names a version, else built metadata beside the package, package_info.py or pyproject.toml.

    UNKNOWN_VERSION where none says.

    Tags win: upstream sometimes raises the number in the source before, or only after, it tags a release.
    """
    tagged = re.search(r"@(?:\w+_)?v?(\d+\.\d+\.\d+\w*) \(", package.origin)
    if tagged:
        return tagged.group(1)
    stem = re.escape(package.name.replace("-", "_"))
    for name in package.files:
        if built := re.fullmatch(rf"{stem}-([^/]+)\.dist-info/METADATA", name):
            return built.group(1)
    info = KNOWN[package.name].replace("__init__.py", "package_info.py")
    if package.has(info):
        parts = dict(re.findall(r"^(MAJOR|MINOR|PATCH|PRE_RELEASE)\s*=\s*[\"']?(\w*)", package.text(info), re.M))
        if {"MAJOR", "MINOR", "PATCH"} <= set(parts):
            return f"{parts['MAJOR']}.{parts['MINOR']}.{parts['PATCH']}{parts.get('PRE_RELEASE', '')}"
    if package.has("pyproject.toml"):
        found = re.search(r"^version\s*=\s*[\"']([^\"']+)", package.text("pyproject.toml"), re.M)
        if found and re.fullmatch(VERSION_PATTERN, found.group(1), re.VERBOSE | re.IGNORECASE):
            return found.group(1)
    return UNKNOWN_VERSION


@dataclass
class Release:
    """Packages that are checked together.

    Attributes:
        name: as printed and saved.
        packages: distribution name -> package.
        missing: distribution name -> why it is not there.
    """

    name: str
    packages: dict[str, Package]
    missing: dict[str, str] = field(default_factory=dict)

    def versions(self) -> dict[str, str]:
        """Distribution name -> version."""
        return {name: package.version for name, package in self.packages.items()}

    def holder(self, path: str) -> Package | None:
        """The package that has this file."""
        return next((package for package in self.packages.values() if package.has(path)), None)


def checkout(place: str) -> list[Package]:
    """The packages in DIR or DIR@REV: a clone or an exported tree of Bridge, NVRx, Megatron-LM or NeMo-Run.

    Raises:
        InputError: the folder, the revision or a known layout is not there.
    """
    folder, _, revision = place.partition("@") if not Path(place).is_dir() else (place, "", "")
    if not Path(folder).is_dir():
        raise InputError(f"{folder} is not a folder; --checkout takes DIR or DIR@REV")
    bare = (Path(folder) / "HEAD").is_file() and (Path(folder) / "objects").is_dir()
    trees = [GitFiles(Path(folder), revision or "HEAD") if revision or bare else TreeFiles(Path(folder))]
    core = Path(folder) / "3rdparty" / "Megatron-LM"
    if not revision and (core / "megatron").is_dir():
        trees.append(TreeFiles(core))
    found: list[Package] = []
    for tree in trees:
        for name, marker in KNOWN.items():
            prefix = next((p for p in ("", "src/") if tree.has(p + marker)), None)
            if prefix is not None:
                found.append(Tree(name, tree, prefix))
    if not found:
        raise InputError(f"{place} holds none of {', '.join(KNOWN)} (looked for {', '.join(KNOWN.values())})")
    return found


def installed(paths: Sequence[str]) -> list[Package]:
    """The known packages on an interpreter's path, editable installs and bare source folders included."""
    found: list[Package] = []
    for name in (*KNOWN, *INSTALLED_ONLY):
        distribution = next(iter(importlib.metadata.distributions(name=name, path=list(paths))), None)
        package: Package | None = Installed(distribution, name) if distribution is not None else None
        if name in KNOWN:
            # What Python would import: a source folder earlier on the path hides the installed package.
            first = next((path for path in paths if (Path(path) / KNOWN[name]).is_file()), None)
            if first is None:
                package = _editable(distribution, name) if distribution is not None else None
            elif package is None or Path(first).resolve() != Path(package.origin).resolve():
                package = Tree(name, TreeFiles(Path(first)), "")
        if package is not None:
            found.append(package)
    return found


def _editable(distribution: importlib.metadata.Distribution, name: str) -> Package | None:
    """The source folder that an editable install points at."""
    try:
        url = json.loads(distribution.read_text("direct_url.json") or "{}").get("url", "")
    except ValueError:
        return None
    folder = Path(urllib.request.url2pathname(urllib.parse.urlsplit(url).path)) if url.startswith("file:") else None
    if folder is None or not folder.is_dir():
        return None
    return next((package for package in checkout(str(folder)) if package.name == name), None)


def environment(python: str | None = None) -> tuple[str, list[Package]]:
    """An interpreter's path and the known packages there.

    Without `python`: the running interpreter, else the first of the active virtual environment and the
    interpreters on PATH that has one.

    Returns:
        The interpreter, and its packages (none where no interpreter has any).

    Raises:
        InputError: the named interpreter does not start.
    """
    if python is not None:
        return python, installed(_search_path(python))
    here = [path for path in sys.path if path and Path(path).resolve() != Path(sys.argv[0]).resolve().parent]
    found = installed(here)
    if any(package.name in KNOWN for package in found):
        return sys.executable, found
    for other in _other_interpreters():
        try:
            found = installed(_search_path(other))
        except InputError:
            continue
        if any(package.name in KNOWN for package in found):
            return other, found
    return sys.executable, []


def _other_interpreters() -> Iterator[str]:
    asked_by = os.environ.get("MBRIDGE_RESILIENCY_PYTHON")
    if asked_by:
        yield asked_by
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        if os.environ.get(variable):
            yield str(Path(os.environ[variable]) / "bin" / "python")
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        for name in ("python", "python3"):
            candidate = Path(folder) / name
            if folder and candidate.is_file() and str(candidate) != sys.executable:
                yield str(candidate)


def _search_path(python: str) -> list[str]:
    """sys.path of another interpreter; it starts, and imports nothing of upstream."""
    command = [python, "-c", "import sys; print('\\n'.join(p for p in sys.path if p))"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, cwd="/")
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InputError(f"{python} does not start ({error}); --python takes the path of an interpreter") from error
    if answer.returncode:
        raise InputError(f"{python} does not start: {answer.stderr.strip()[-300:]}")
    return [line for line in io.StringIO(answer.stdout).read().splitlines() if line]
