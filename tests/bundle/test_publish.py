# SPDX-License-Identifier: Apache-2.0
"""What is published is generated from facts and committed results, and nothing has drifted."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

import bundle
from mbridge_resiliency import facts
from mbridge_resiliency.cli import InputError
from mbridge_resiliency.drills.catalogue import DRILLS
from mbridge_resiliency.publish import blocks, card, command, compatibility, pages, results, verified
from mbridge_resiliency.upstream.guides import FEATURES

KEYS = (
    "title validated_on validation_method revisions validation_status feature_meaning enable_when avoid_when "
    "recommended_path config_keys interactions failure_modes known_constraints known_limitations measured_results "
    "evidence follow_up_validation"
).split()


def test_nothing_has_drifted() -> None:
    drifted = [name for name, text in command.generated().items() if (bundle.ROOT / name).read_text() != text]
    assert not drifted, "run: python3 scripts/publish.py"


def test_drift_is_noticed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(command, "ROOT", tmp_path)
    monkeypatch.setattr(command, "generated", lambda: {"card.yaml": "title: new\n"})
    (tmp_path / "card.yaml").write_text("title: old\n")
    assert command.main(["--check"]) == 1
    assert "-title: old\n+title: new\n" in capsys.readouterr().out
    assert (tmp_path / "card.yaml").read_text() == "title: old\n"
    assert command.main([]) == 0
    assert command.main(["--check"]) == 0


def test_a_fact_that_the_saved_matrix_does_not_know_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown() -> dict[str, str]:
        raise KeyError("some.fact")

    monkeypatch.setattr(command, "generated", unknown)
    with pytest.raises(InputError, match="some.fact.*\n.*check_upstream.py --matrix --save"):
        command.main(["--check"])


def test_card_has_every_key() -> None:
    loaded = yaml.safe_load((bundle.ROOT / "card.yaml").read_text())
    assert not set(KEYS) - set(loaded)
    assert all(loaded[key] for key in KEYS)


def test_every_claim_of_the_card_is_shown() -> None:
    status = card.build()["validation_status"]
    assert not [item for items in status.values() for item, words in items.items() if "not_shown" in words]


def test_every_feature_with_facts_is_in_the_card() -> None:
    status = card.build()["validation_status"]
    files = {fact.file for fact in facts.all_facts().values()}
    assert set(status) == {FEATURES[file].title for file in files}
    assert all(words and set(words) <= set(card.METHOD) for items in status.values() for words in items.values())


@pytest.mark.parametrize("newest", ["d", "g", "x", "-"])
def test_code_verified_is_what_the_matrix_says(monkeypatch: pytest.MonkeyPatch, newest: str) -> None:
    fact = facts.fact("nvrx.option.max-restarts")
    assert card._from_source([fact]) == {"options and defaults": ["code_verified"]}
    columns = [release["packages"].get(blocks.NVRX) for release in verified.matrix()["releases"]]
    letters = "".join(newest if version == "0.7.0" else "h" for version in columns)
    saved = {**verified.matrix(), "verdicts": {fact.id: letters}}
    monkeypatch.setattr(verified, "matrix", lambda: saved)
    assert card._from_source([fact]) == {"options and defaults": ["read_only"]}


def test_no_item_rests_on_the_existence_of_a_file_alone() -> None:
    paths = list(facts.of_kind("path"))
    assert paths and card._from_source(paths) == {}


def test_every_bug_is_on_the_compatibility_page() -> None:
    page = compatibility.render()
    assert not [bug.id for bug in facts.of_kind("upstream_bug") if f"`{bug.id}`" not in page]


def test_a_row_that_nothing_proves_is_named() -> None:
    with pytest.raises(ValueError, match="no passed result is called drill:nonsense"):
        compatibility._shown_by({"runs": ["drill:nonsense"]})


def test_a_release_without_the_feature_is_told_from_one_with_it() -> None:
    assert compatibility._in_releases(["exit.ft-launcher.no-restart"], blocks.NVRX) == ["-", "-", "-", "yes"]


def test_every_run_that_a_fact_names_has_a_passed_result() -> None:
    passed = {results.name(result) for result in results.measured() if result["passed"]}
    files = {f"result:{result['file']}" for result in results.measured() if result["passed"]}
    named = {fact.shown_by for fact in facts.all_facts().values() if fact.shown_by}
    assert not named - passed - files


def test_the_card_names_drills_that_exist() -> None:
    source = yaml.safe_load(card.SOURCE.read_text())
    claimed = [proof for items in source["validated"].values() for proof in items.values()]
    proofs = [*claimed, *(mode["proven_by"] for mode in source["failure_modes"])]
    assert not {name for proof in proofs for name in proof.get("drills", ())} - set(DRILLS)


def test_a_failed_drill_takes_its_word_away(monkeypatch: pytest.MonkeyPatch) -> None:
    proof = {"drills": ["hang-stopped"]}
    monkeypatch.setattr(results, "drills", lambda: [{"drill": "hang-stopped", "passed": True}])
    assert card._status(proof) == ["run_real"]
    monkeypatch.setattr(
        results,
        "drills",
        lambda: [{"drill": "hang-stopped", "passed": True}, {"drill": "hang-stopped", "passed": False}],
    )
    assert card._status(proof) == ["not_shown"]
    assert card._status({"drills": ["hang-stopped", "killed"]}) == ["not_shown"]


def test_every_drill_has_a_committed_result_for_both_versions() -> None:
    there = {(result["drill"], result["versions"][blocks.NVRX]) for result in results.drills()}
    assert there == {(name, version) for name in DRILLS for version in blocks.NVRX_VERSIONS}


@pytest.mark.parametrize("result", results.drills(), ids=lambda result: result["file"])
def test_committed_drill_passed_within_its_time(result: results.Result) -> None:
    assert result["passed"]
    timeout = result["configured"]["timeout"]
    if timeout is not None:
        most = timeout + result["configured"]["check_interval"] + 1
        assert result["measured"]["detection_seconds"] <= most


def test_options_in_the_table_exist() -> None:
    for version in blocks.NVRX_VERSIONS:
        known = {fact.says["name"] for fact in facts.of_kind("option", nvidia_resiliency_ext=version)}
        assert set(blocks.OPTIONS) - known <= {"--ft-no-restart-exit-code"}


def test_every_block_is_used_and_every_used_block_exists() -> None:
    text = "".join(path.read_text() for path in pages.pages())
    assert not [name for name in blocks.BLOCKS if f"<!-- generated: {name} -->" not in text]


def test_unknown_and_unclosed_blocks_are_named() -> None:
    with pytest.raises(ValueError, match="page.md: no block is called nonsense"):
        pages.fill("<!-- generated: nonsense -->\n<!-- end generated -->\n", "page.md")
    with pytest.raises(ValueError, match="page.md: block ft-sections has no"):
        pages.fill("<!-- generated: ft-sections -->\n", "page.md")


def test_fill_replaces_what_stood_between() -> None:
    text = "a\n<!-- generated: ft-sections -->\nold\n<!-- end generated -->\nb\n"
    once = pages.fill(text, "page.md")
    assert "old" not in once and once.startswith("a\n") and once.endswith("<!-- end generated -->\nb\n")
    assert pages.fill(once, "page.md") == once
