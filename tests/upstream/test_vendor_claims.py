# SPDX-License-Identifier: Apache-2.0
"""The comparison with the vendor's skill rests on facts that there are and on recorded lists of paths."""

from __future__ import annotations

from collections import Counter
from typing import Any, Mapping

import pytest

from mbridge_resiliency import facts
from mbridge_resiliency.publish import vendor_differences

DATA = vendor_differences.claims()
CLAIMS = {claim["id"]: claim for claim in DATA["claims"]}
PATHS = [path for claim in DATA["claims"] for path in claim.get("paths", ())]


def test_ids_are_unique() -> None:
    assert len(CLAIMS) == len(DATA["claims"])


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=CLAIMS)
def test_claim_is_decided(claim: Mapping[str, Any]) -> None:
    keys = {"id", "topic", "claim", "verdict", "facts", "paths", "instead", "source"}
    assert set(claim) <= keys and {"id", "topic", "claim", "verdict", "source"} <= set(claim)
    assert claim["verdict"] in vendor_differences.VERDICTS
    assert ("facts" in claim) != ("paths" in claim), "facts decide a claim, or the lists of paths do"
    unknown = [name for name in claim.get("facts", ()) if name not in facts.all_facts()]
    assert not unknown, f"{claim['id']} names facts that there are not: {unknown}"
    assert ("instead" in claim) == (claim["verdict"] in vendor_differences.DIFFERENT)


@pytest.mark.parametrize("path", PATHS)
def test_path_claim_agrees_with_the_lists(path: str) -> None:
    mirror = DATA["mirror"]
    claim = next(claim for claim in DATA["claims"] if path in claim.get("paths", ()))
    absent = [revision for revision, listed in mirror["revisions"].items() if path in listed["absent"]]
    assert path in mirror["named"]
    if claim["verdict"] == "holds":
        assert not absent
    else:
        assert absent == list(mirror["revisions"]) and path in mirror["moved"]


def test_every_named_path_is_claimed_once() -> None:
    assert Counter(PATHS) == Counter(DATA["mirror"]["named"])


def test_page_has_what_differs_and_nothing_else() -> None:
    page = vendor_differences.render()
    for claim in CLAIMS.values():
        heading = f"### {claim['claim'].removesuffix('.')}\n"
        assert (heading in page) == (claim["verdict"] in vendor_differences.DIFFERENT), claim["id"]
        for fact in claim.get("facts", ()) if heading in page else ():
            assert f"- `{fact}` (" in page, fact
    assert page.startswith("<!-- Generated") and page.endswith("\n") and not page.endswith("\n\n")
