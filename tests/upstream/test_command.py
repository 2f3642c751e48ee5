# SPDX-License-Identifier: Apache-2.0
"""check_upstream.py as a user runs it."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import jsonschema
import pytest

import mbridge_resiliency
from mbridge_resiliency import facts as fact_store
from mbridge_resiliency.facts import Fact
from mbridge_resiliency.upstream import command, guides, matrix, verify, wheels
from mbridge_resiliency.upstream.sources import KNOWN, Release, installed

SCRIPT = Path(mbridge_resiliency.__file__).resolve().parents[1] / "check_upstream.py"
SCHEMA = jsonschema.Draft202012Validator(
    json.loads((SCRIPT.parent / "mbridge_resiliency" / "report" / "check_upstream.schema.json").read_text())
)
FACTS = """facts:
- {{id: a.count, kind: constant, says: {{name: COUNT, value: {value}}}, holds: {{nemo-run: ">=0.11.0"}},
   source: {{package: nemo-run, file: nemo_run/a.py, symbol: COUNT}}}}
- {{id: a.run, kind: behaviour, says: {{statement: it works}}, holds: {{}}, shown_by: drill:x,
   source: {{package: nemo-run, file: nemo_run/a.py, symbol: COUNT}}}}
- {{id: a.other, kind: behaviour, says: {{statement: it works}}, holds: {{}},
   source: {{package: slurm, file: src/a.c, has: x}}}}
"""
NO_KIND = "{id: a, kind: nonsense, says: {}, holds: {}, source: {}}"


@pytest.fixture
def run(make_wheel, tmp_path, capsys):
    """Run the command on one small release, 0.11.1 of NeMo-Run, that counts to 3."""
    make_wheel("nemo-run", "0.11.1", {"nemo_run/a.py": "COUNT = 3\n"}, into=wheels.wheels_dir())
    make_wheel("nemo-run", "0.11.0", {"nemo_run/a.py": "COUNT = 2\n"}, into=wheels.wheels_dir())

    def one(*arguments: str, value: int = 3) -> tuple[int, str]:
        facts = tmp_path / "facts.yaml"
        facts.write_text(FACTS.format(value=value))
        code = command.main(["--facts", str(facts), *arguments])
        return code, capsys.readouterr().out

    return one


def test_facts_that_hold(run):
    code, out = run("--release", "nemo-run==0.11.1")
    assert code == 0
    assert "2 checks: 1 hold, 0 differ, 0 gone, 1 could not tell (only a run shows 1 of them)." in out
    assert "1 about slurm" in out


def test_a_fact_that_does_not_hold(run):
    code, out = run("--release", "nemo-run==0.11.1", value=4)
    assert code == 1
    assert "a.count: differs (nemo_run/a.py:1)\n  claimed: COUNT 4\n  found: COUNT 3" in out


def test_json(run):
    code, out = run("--release", "nemo-run==0.11.1", "--format", "json", value=4)
    body = json.loads(out)
    SCHEMA.validate(body)
    assert (code, body["schema_version"]) == (1, 1)
    assert body["packages"][0]["version"] == "0.11.1"
    assert body["counts"] == {"holds": 0, "differs": 1, "gone": 0, "could_not_tell": 1}
    assert [v["verdict"] for v in body["verdicts"]] == ["differs", "could_not_tell"]


def test_kind_and_id_narrow(run):
    assert "1 checks: " in run("--release", "nemo-run==0.11.1", "--kind", "constant")[1]
    assert "1 checks: " in run("--release", "nemo-run==0.11.1", "--id", "a.r")[1]


def test_all_lists_what_holds(run):
    out = run("--release", "nemo-run==0.11.1", "--all")[1]
    assert "a.count: holds (nemo_run/a.py:1)" in out
    assert "a.run: could not tell\n  because: a run shows it: drill:x" in out


def test_outside_shows_ranges_that_are_too_tight(run, make_wheel):
    make_wheel("nemo-run", "0.10.0", {"nemo_run/a.py": "COUNT = 3\n"}, into=wheels.wheels_dir())
    code, out = run("--release", "nemo-run==0.10.0", "--outside")
    assert (code, "a.count: holds here, and does not claim it" in out) == (0, True)


def test_a_release_without_its_wheel_was_not_measured(run, capsys):
    assert command.main(["--release", "nemo-run==0.9.0"]) == 3
    assert "--download" in capsys.readouterr().err


def test_the_matrix_without_wheels_was_not_measured_as_a_whole(run, capsys):
    code, out = run("--matrix")
    assert code == 1  # 0.11.0 counts to 2
    assert "a.count: differs in nemo-run 0.11.0 (nemo_run/a.py:1)" in out
    assert command.main(["--matrix", "--kind", "section"]) == 3


def test_the_matrix_is_saved_as_data(run, tmp_path):
    target = tmp_path / "results" / "matrix.json"
    run("--matrix", "--save", str(target))
    body = json.loads(target.read_text())
    SCHEMA.validate(body)
    names = [release["name"] for release in body["releases"]]
    assert names == [" ".join(map(str, next(iter(row.items())))) for row in matrix.table()["releases"]]
    assert body["verdicts"]["a.count"][names.index("nemo-run 0.11.0")] == "d"
    assert body["verdicts"]["a.count"][names.index("nemo-run 0.11.1")] == "h"
    assert body["verdicts"]["a.run"][names.index("nemo-run 0.11.1")] == "?"
    assert body["not_holding"][0]["found"] == "COUNT 2"


def test_since_and_until(run, make_wheel):
    for version, default, text in (("0.6.0", 2, "old words here"), ("0.7.0", 3, "new words here")):
        files = {
            "nvidia_resiliency_ext/fault_tolerance/launcher.py": (
                f"def get_args_parser():\n    p.add_argument('--ft-cycles', '--ft_cycles', default={default})\n"
                f"    p.add_argument('--only-{version[2]}')\n    log.info('{text}')\n"
            ),
            "nvidia_resiliency_ext/fault_tolerance/config.py": (
                f"class FaultToleranceConfig:\n    cycles: int = {default}\n"
            ),
        }
        make_wheel("nvidia-resiliency-ext", version, files, into=wheels.wheels_dir())
    arguments = ["--since", "nvidia-resiliency-ext==0.6.0", "--until", "nvidia-resiliency-ext==0.7.0"]
    code, out = run(*arguments)
    assert code == 1
    assert "changed: --ft-cycles, --ft_cycles: takes one, default 2 -> takes one, default 3" in out
    assert "added: --only-7" in out and "removed: --only-6" in out
    assert "changed: nvidia-resiliency-ext FaultToleranceConfig.cycles: int = 2 -> int = 3" in out
    same = ["--since", "nvidia-resiliency-ext==0.6.0", "--until", "nvidia-resiliency-ext==0.6.0"]
    assert run(*same)[0] == 0
    body = json.loads(run(*arguments, "--format", "json")[1])
    SCHEMA.validate(body)
    assert {change["area"] for change in body["changes"]} == {"options", "settings"}


@pytest.mark.parametrize(
    "arguments",
    [
        ["--matrix", "--python", "x"],
        ["--since", "nemo-run==0.11.0"],
        ["--save", "x.json"],
        ["--kind", "nonsense"],
        ["--anchors", "--release", "nemo-run==0.11.1"],
    ],
)
def test_wrong_usage(arguments):
    with pytest.raises(SystemExit) as stopped:
        command.main(arguments)
    assert stopped.value.code == 2


@pytest.mark.parametrize(
    "arguments,said",
    [
        (["--id", "no.such"], "no fact is of that"),
        (["--facts", "nowhere.yaml"], "cannot be read"),
        (["--release", "x==1"], "NAME==VERSION"),
        (["--checkout", "nowhere"], "not a folder"),
        (["--python", "nowhere"], "does not start"),
    ],
)
def test_unusable_input_ends_with_2_and_no_traceback(arguments, said, tmp_path):
    done = subprocess.run([sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, said in done.stderr, "Traceback" in done.stderr) == (2, True, False), done.stderr


@pytest.mark.parametrize("text", ["", "facts: 3", "a: [", "- 1\n", "facts:\n- {id: a}\n", "facts:\n- " + NO_KIND, "\0"])
def test_a_malformed_fact_file_is_an_input_error(text, tmp_path):
    (tmp_path / "f.yaml").write_text(text)
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--facts", "f.yaml"], capture_output=True, text=True, cwd=tmp_path
    )
    assert (done.returncode, "Traceback" in done.stderr) == (2, False), done.stderr


def test_no_package_anywhere_was_not_measured(tmp_path, monkeypatch):
    """The user's own environment: this interpreter, and no other on the path."""
    environment = {**os.environ, "PATH": "/nowhere", "MBRIDGE_RESILIENCY_PYTHON": sys.executable}
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH"):
        environment.pop(name, None)
    done = subprocess.run([sys.executable, str(SCRIPT)], capture_output=True, text=True, cwd=tmp_path, env=environment)
    if "checks: " in done.stdout:
        pytest.skip("the tests' own interpreter has one of the packages")
    assert (done.returncode, "--python PATH" in done.stderr) == (3, True), done.stderr


def test_torch_is_not_imported(real, tmp_path):
    place = real()
    lines = (
        "import sys",
        f"sys.path.insert(0, {str(SCRIPT.parent)!r})",
        "sys.meta_path.insert(0, type('Refuse', (), {'find_spec': staticmethod(refuse)}))",
        "from mbridge_resiliency.upstream.command import main",
        f"code = main(['--python', {str(place.parents[2] / 'bin' / 'python')!r}])",
        "assert 'torch' not in sys.modules and 'megatron' not in sys.modules",
        "assert code in (0, 1)",
    )
    refuse = (
        "def refuse(name, path=None, target=None):\n"
        "    assert name.split('.')[0] not in ('torch', 'megatron', 'nvidia_resiliency_ext', 'nemo_run'), name\n"
    )
    code = refuse + "\n".join(lines)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("nvrx", ["0.7.0", "0.6.0"])
def test_every_fact_holds_in_the_real_packages_it_claims(real, nvrx):
    packages = {package.name: package for package in installed([str(real(nvrx))])}
    verdicts = verify.verify_all(fact_store.all_facts().values(), Release("installed", packages))
    wrong = [v for v in verdicts if v.verdict in (verify.DIFFERS, verify.GONE)]
    assert wrong == []
    assert sum(v.verdict == verify.HOLDS for v in verdicts) > 100


def test_the_saved_matrix_is_of_these_facts_and_has_none_that_does_not_hold():
    """Made again with check_upstream.py --matrix --save results/upstream/matrix.json."""
    saved = json.loads((SCRIPT.parents[1] / "results" / "upstream" / "matrix.json").read_text(encoding="utf-8"))
    facts = list(fact_store.all_facts().values())
    SCHEMA.validate(saved)
    assert saved["facts"]["digest"] == matrix.digest(facts)
    assert {fact: letters for fact, letters in saved["verdicts"].items() if set(letters) & {"d", "g"}} == {}
    assert [release["name"] for release in saved["releases"] if release["missing"]] == []
    assert guides.render().count("\n| ") == len(saved["anchors"]) + len({a["feature"] for a in saved["anchors"]})
    unclaimed = {fact for fact, letters in saved["verdicts"].items() if not set(letters) & set("hdg?")}
    read = {fact.id for fact in facts if fact.source["package"] in KNOWN}
    assert unclaimed & read == set()


def test_every_fact_file_has_a_feature_and_a_fact_that_fails_names_its_pages():
    facts = fact_store.all_facts().values()
    assert {fact.file for fact in facts} == set(guides.FEATURES)
    touched = next(fact for fact in facts if fact.file == "nvrx_launcher.yaml")
    assert guides.pages_of(touched)[0] == "references/fault-tolerance.md"


def test_anchors_name_symbol_and_line(run):
    code, out = run("--anchors", "--id", "a.count")
    assert code == 3  # not every release is there
    for row in matrix.table()["releases"]:
        for name, version in row.items():
            write_empty(name, str(version))
    code, out = run("--anchors", "--id", "a.count")
    assert (code, "| nemo_run/a.py | `COUNT` | 1 | 1 constant |" in out) == (0, True)


def test_anchors_are_of_the_newest_version_alone(run, make_wheel):
    """NVRx is read at 0.6.0 beside the newest Bridge, and at 0.7.0 alone: only the latter counts."""
    place = {"package": "nvidia-resiliency-ext", "file": "nvidia_resiliency_ext/a.py", "symbol": "A"}
    for version, value in (("0.6.0", 1), ("0.7.0", 2)):
        files = {"nvidia_resiliency_ext/a.py": f"A = {value}\n"}
        make_wheel("nvidia-resiliency-ext", version, files, into=wheels.wheels_dir())
    for row in matrix.table()["releases"]:
        for name, version in row.items():
            write_empty(name, str(version))
    facts = [Fact(f"a.{n}", "constant", {"name": "A", "value": n}, {}, place, file="a.yaml") for n in (1, 2)]
    (anchor,) = guides.anchors(facts, matrix.run(facts))
    assert (anchor["version"], anchor["facts"]) == ("0.7.0", {"constant": 1})


def write_empty(name: str, version: str) -> None:
    """A wheel with nothing in it, unless one of that version is there."""
    if wheels.cached(name, version) is None:
        stem = f"{name.replace('-', '_')}-{version}"
        with zipfile.ZipFile(wheels.wheels_dir() / f"{stem}-py3-none-any.whl", "w") as archive:
            archive.writestr(f"{stem}.dist-info/METADATA", f"Name: {name}\nVersion: {version}\n")
            archive.writestr(f"{stem}.dist-info/WHEEL", "Tag: py3-none-any\n")
