# SPDX-License-Identifier: Apache-2.0
"""The same answer from a wheel, a checkout, a git revision and an installation; clear words where there is none."""

import json
import subprocess
import sys

import pytest

from mbridge_resiliency.cli import InputError
from mbridge_resiliency.facts import Fact
from mbridge_resiliency.upstream import sources, verify, wheels

INFO = "MAJOR = 1\nMINOR = 2\nPATCH = 3\nPRE_RELEASE = 'rc1'\n"


def write(folder, files):
    for place, text in files.items():
        path = folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def install(folder, name, version, files, direct_url=None):
    """A distribution as an installer leaves it."""
    info = f"{name.replace('-', '_')}-{version}.dist-info"
    metadata = {f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"}
    if direct_url:
        metadata[f"{info}/direct_url.json"] = json.dumps({"url": direct_url, "dir_info": {"editable": True}})
    everything = {**files, **metadata}
    record = "".join(f"{place},,\n" for place in everything)
    return write(folder, {**everything, f"{info}/RECORD": record})


def git(folder, *arguments):
    command = ["git", "-C", str(folder), "-c", "user.name=x", "-c", "user.email=x@example.org", *arguments]
    subprocess.run(command, check=True, capture_output=True)


@pytest.fixture
def bridge_repository(tmp_path):
    """A repository laid out as Megatron-Bridge is, tagged v1.2.3, with another state in its work tree."""
    folder = tmp_path / "Megatron-Bridge"
    write(folder, {
        "src/megatron/bridge/__init__.py": "",
        "src/megatron/bridge/package_info.py": INFO,
        "src/megatron/bridge/a.py": "A = 1\n",
        "examples/run.py": "B = 1\n",
        "pyproject.toml": '[project]\nname = "x"\n[project.scripts]\nft_launcher = "a.b:main"\n',
    })  # fmt: skip
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "one")
    git(folder, "tag", "v1.2.3")
    (folder / "src/megatron/bridge/a.py").write_text("A = 2\n")
    return folder


def test_wheel(make_wheel):
    wheel = sources.Wheel(make_wheel("nemo-run", "0.11.1", {"nemo_run/a.py": "A = 1\n"}))
    assert (wheel.name, wheel.version, wheel.text("nemo_run/a.py")) == ("nemo-run", "0.11.1", "A = 1\n")
    assert "nemo_run/a.py" in wheel.files
    with pytest.raises(FileNotFoundError):
        wheel.read("nemo_run/b.py")


def test_a_damaged_wheel_is_named(tmp_path):
    path = tmp_path / "nemo_run-0.11.1-py3-none-any.whl"
    path.write_bytes(b"PK\x03\x04 torn")
    with pytest.raises(InputError, match="not a readable wheel"):
        sources.Wheel(path)


def test_checkout_of_a_work_tree(bridge_repository):
    (package,) = sources.checkout(str(bridge_repository))
    assert (package.name, package.version) == ("megatron-bridge", "1.2.3rc1")
    assert package.text("megatron/bridge/a.py") == "A = 2\n"
    assert package.has("examples/run.py")
    assert {"megatron/bridge/a.py", "examples/run.py"} <= package.files
    assert package.entry_points() == {"ft_launcher": "a.b:main"}


def test_checkout_of_a_revision_reads_the_revision(bridge_repository):
    (package,) = sources.checkout(f"{bridge_repository}@v1.2.3")
    assert package.version == "1.2.3"
    assert package.text("megatron/bridge/a.py") == "A = 1\n"
    assert package.text("examples/run.py") == "B = 1\n"
    with pytest.raises(FileNotFoundError):
        package.read("megatron/bridge/b.py")


def test_checkout_of_a_bare_repository(bridge_repository, tmp_path):
    bare = tmp_path / "bare"
    subprocess.run(["git", "clone", "-q", "--bare", str(bridge_repository), str(bare)], check=True)
    (package,) = sources.checkout(str(bare))
    assert package.text("megatron/bridge/a.py") == "A = 1\n"


def test_checkout_with_its_submodule(bridge_repository):
    write(
        bridge_repository / "3rdparty/Megatron-LM",
        {"megatron/core/__init__.py": "", "megatron/training/a.py": "C = 1\n"},
    )
    packages = {package.name: package for package in sources.checkout(str(bridge_repository))}
    assert packages["megatron-core"].text("megatron/training/a.py") == "C = 1\n"


@pytest.mark.parametrize(
    "place,said", [("nowhere", "not a folder"), (".@x", "no revision"), ("empty", "holds none of")]
)
def test_a_checkout_that_is_none(tmp_path, monkeypatch, place, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    git(tmp_path, "init", "-q")
    with pytest.raises(InputError, match=said):
        sources.checkout(place)


def test_installed(tmp_path):
    install(tmp_path, "nemo-run", "0.11.1", {"nemo_run/__init__.py": "", "nemo_run/a.py": "A = 1\n"})
    (package,) = sources.installed([str(tmp_path)])
    assert (package.version, package.text("nemo_run/a.py")) == ("0.11.1", "A = 1\n")
    assert "nemo_run/a.py" in package.files


def test_an_editable_install_leads_to_its_source(tmp_path, bridge_repository):
    install(tmp_path / "site", "megatron-bridge", "1.2.3", {}, bridge_repository.as_uri())
    (package,) = sources.installed([str(tmp_path / "site")])
    assert package.text("megatron/bridge/a.py") == "A = 2\n"


def test_a_source_folder_earlier_on_the_path_is_what_python_would_import(tmp_path):
    install(
        tmp_path / "site", "megatron-core", "0.19.2", {"megatron/core/__init__.py": "", "megatron/core/a.py": "A = 1\n"}
    )
    write(
        tmp_path / "lm",
        {"megatron/core/__init__.py": "", "megatron/core/package_info.py": INFO, "megatron/core/a.py": "A = 2\n"},
    )
    (package,) = sources.installed([str(tmp_path / "lm"), str(tmp_path / "site")])
    assert (package.version, package.text("megatron/core/a.py")) == ("1.2.3rc1", "A = 2\n")
    (package,) = sources.installed([str(tmp_path / "site"), str(tmp_path / "lm")])
    assert package.version == "0.19.2"


def test_a_copy_earlier_on_the_path_is_read_and_not_the_one_beside_another_package(tmp_path):
    nvrx = "nvidia_resiliency_ext"
    site, override = tmp_path / "site", tmp_path / "override"
    install(site, "megatron-bridge", "0.6.2", {"megatron/bridge/__init__.py": ""})
    install(site, "nvidia-resiliency-ext", "0.7.0", {f"{nvrx}/__init__.py": "", f"{nvrx}/a.py": "A = 1\n"})
    install(override, "nvidia-resiliency-ext", "0.7.0", {f"{nvrx}/__init__.py": "", f"{nvrx}/a.py": "A = 2\n"})
    packages = {package.name: package for package in sources.installed([str(override), str(site)])}
    source = {"package": "nvidia-resiliency-ext", "file": f"{nvrx}/a.py"}
    fact = Fact("a", "constant", {"name": "A", "value": 1}, {}, source)
    (verdict,) = verify.verify_all([fact], sources.Release("both", packages))
    assert (verdict.verdict, verdict.found) == ("differs", "A 2")


def test_an_unpacked_wheel_has_the_version_of_its_metadata(tmp_path):
    install(tmp_path, "nemo-run", "0.11.1", {"nemo_run/__init__.py": ""})
    (package,) = sources.checkout(str(tmp_path))
    assert package.version == "0.11.1"


def test_another_interpreter_is_asked_for_its_path(tmp_path, monkeypatch):
    install(tmp_path, "nemo-run", "0.11.1", {"nemo_run/__init__.py": ""})
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    python, found = sources.environment(sys.executable)
    assert python == sys.executable
    assert "nemo-run" in [package.name for package in found]


def test_an_interpreter_that_is_none(tmp_path):
    with pytest.raises(InputError, match="does not start"):
        sources.environment(str(tmp_path / "python"))


@pytest.mark.parametrize(
    "text", ["megatron-bridge", "megatron-bridge==", "megatron-bridge==latest", "requests==1.0", "=="]
)
def test_a_release_that_is_none(text):
    with pytest.raises(InputError, match="NAME==VERSION"):
        wheels.parse_requirement(text)


def test_names_of_releases_are_normalised():
    assert wheels.parse_requirement("Megatron_Bridge==0.6.2") == ("megatron-bridge", "0.6.2")


def test_a_missing_wheel_says_how_to_get_it(own_cache):
    with pytest.raises(wheels.NotThere, match=r"(?s)--download.*pip download.*nemo-run==0\.11\.1"):
        wheels.wheel("nemo-run", "0.11.1")
    assert not own_cache.exists()


def test_a_cached_wheel_is_used(make_wheel, own_cache):
    make_wheel("nemo-run", "0.11.1", {}, into=wheels.wheels_dir())
    make_wheel("nemo-run", "0.11.0", {}, into=wheels.wheels_dir())
    assert wheels.wheel("nemo-run", "0.11.1").version == "0.11.1"


def test_a_download_that_fails_leaves_nothing(monkeypatch, own_cache):
    monkeypatch.setattr(
        wheels, "download_command", lambda *_: [sys.executable, "-c", "raise SystemExit('no such release')"]
    )
    with pytest.raises(wheels.NotThere, match="could not be downloaded: no such release"):
        wheels.wheel("nemo-run", "9.9.9", download=True)
    assert list(wheels.wheels_dir().iterdir()) == []


def test_a_file_that_is_no_wheel_is_passed_over(own_cache, make_wheel):
    make_wheel("nemo-run", "0.11.1", {}, into=wheels.wheels_dir())
    (wheels.wheels_dir() / "nemo_run-0.1.whl").touch()
    assert wheels.cached("nemo-run", "0.11.1") is not None


def test_without_pip_the_wheel_has_to_be_put_there(monkeypatch):
    monkeypatch.setattr(wheels.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(wheels.NotThere, match="no interpreter here has pip"):
        wheels.wheel("nemo-run", "0.11.1", download=True)


@pytest.mark.download
@pytest.mark.skipif(wheels.interpreter_with_pip() is None, reason="no interpreter here has pip")
def test_download():
    wheel = wheels.wheel("nemo-run", "0.11.1", download=True)
    assert wheel.has("nemo_run/__init__.py")
    assert wheels.cached("nemo-run", "0.11.1") is not None


@pytest.mark.parametrize("said,version", [("1.2.3", "1.2.3"), ("1.2.3-rc1", "1.2.3-rc1"), ("${VERSION}", "0")])
def test_the_version_of_a_tree_without_package_info(tmp_path, said, version):
    write(tmp_path, {"src/nvidia_resiliency_ext/__init__.py": "", "pyproject.toml": f'[project]\nversion = "{said}"\n'})
    (package,) = sources.checkout(str(tmp_path))
    assert package.version == version
