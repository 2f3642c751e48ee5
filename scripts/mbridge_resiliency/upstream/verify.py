# SPDX-License-Identifier: Apache-2.0
"""Whether facts hold in a release: by their kind (kinds.py), and by the code patterns that any fact can name.

Verdicts: holds; differs (what is claimed, what is there); gone (with the nearest match); could_not_tell (with the
reason: not measured is never "holds").
"""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass, replace
from typing import Any, Iterable, Iterator, Mapping

from ..facts import Fact
from .answers import (
    COULD_NOT_TELL,
    DIFFERS,
    GONE,
    HOLDS,
    NO_PROOF,
    ORDER,
    VERDICTS,
    Answer,
    At,
    differs,
    gone,
    holds,
    shown,
    unknown,
)
from .kinds import AT_SOURCE, OF_PACKAGE
from .sources import INSTALLED_ONLY, KNOWN, Package, Release
from .symbols import File, NotReadable, Symbols
from .syntax import HOLE, holes_of_braces

__all__ = [
    "COULD_NOT_TELL", "DIFFERS", "GONE", "HOLDS", "READ", "VERDICTS",
    "Verdict", "about", "claims_release", "readable", "unqualified", "verify", "verify_all",
]  # fmt: skip

#: The packages that can be read.
READ = (*KNOWN, *INSTALLED_ONLY)


@dataclass(frozen=True)
class Verdict:
    """What became of one fact in one release.

    Attributes:
        fact: its id.
        verdict: one of VERDICTS.
        release: the release's name.
        place: file:line where the proof stands, or "".
        claimed, found: both values, where it differs.
        reason: why it could not be told; the nearest match of what is gone.
        claims: False where the fact does not claim this release (asked for with --outside).
    """

    fact: str
    kind: str
    verdict: str
    release: str
    place: str = ""
    claimed: str = ""
    found: str = ""
    reason: str = ""
    claims: bool = True


# ---- whole releases ----


def verify_all(facts: Iterable[Fact], release: Release, outside: bool = False) -> list[Verdict]:
    """The verdict on every fact that is about a package of this release and claims its versions.

    outside: also facts that do not claim these versions, marked so; a holding one has too tight a range.
    """
    symbols = Symbols(release)
    verdicts = []
    for fact in facts:
        if not about(fact, release):
            continue
        claims = claims_release(fact, release)
        if claims or outside:
            verdicts.append(replace(verify(fact, symbols), claims=claims))
    symbols.keep()
    return verdicts


def about(fact: Fact, release: Release) -> bool:
    """True if the release has the package that the fact is about."""
    return fact.source["package"] in release.packages


def readable(fact: Fact) -> bool:
    """True if the fact is about a package that this command can read."""
    return fact.source["package"] in READ


def claims_release(fact: Fact, release: Release) -> bool:
    """True if the fact is claimed for every version in the release that it names a range for."""
    return all(fact.holds_for(name, version) for name, version in release.versions().items())


def verify(fact: Fact, symbols: Symbols) -> Verdict:
    """The verdict on one fact, whether it claims the release or not."""
    try:
        answer = _verify(fact, symbols)
    except NotReadable as error:
        answer = unknown(str(error))
    return Verdict(fact.id, fact.kind, release=symbols.release.name, **vars(answer))


def _verify(fact: Fact, symbols: Symbols) -> Answer:
    source = fact.source
    package = symbols.release.packages.get(source["package"])
    if package is None:
        return unknown(f"{source['package']} is not there")
    of_package = OF_PACKAGE.get(fact.kind)
    answers = []
    if of_package is not None:
        answers.append(of_package(fact, package))
    if of_package is None or "has" in source or "lacks" in source:
        answers.append(_at_source(fact, source, symbols, of_package is None))
    for other in source.get("also", ()):
        answers.append(_at_source(fact, {"package": source["package"], **other}, symbols, False))
    told = [answer for answer in answers if answer is not NO_PROOF]
    if not told:
        return _run_shows(fact) or unknown("the fact names neither a pattern in the source nor a run that shows it")
    return min(told, key=lambda answer: ORDER.index(answer.verdict))


def _run_shows(fact: Fact) -> Answer | None:
    return unknown(f"a run shows it: {fact.shown_by}") if fact.shown_by else None


def _at_source(fact: Fact, source: Mapping[str, Any], symbols: Symbols, by_kind: bool) -> Answer:
    """The answer at one place of a fact's source: its kind's verifier, then the patterns."""
    package = symbols.release.packages.get(source["package"])
    if package is None:
        return unknown(f"{source['package']} is not there")
    path, symbol = source.get("file", ""), source.get("symbol", "")
    if not path:
        return unknown("the fact's source names no file")
    if "*" in path:
        return _in_any_file(source, package, path)
    if path.endswith((".so", ".a")):
        return unknown(f"{path} is compiled")
    if not package.has(path):
        if not package.has(KNOWN.get(package.name, path)):
            return unknown(f"{package.name} has no source where it is installed")
        if package.leaves_out(path):
            return unknown(f"{path} is not part of the built {package.name}; use --checkout")
        same_name = [name for name in package.files if name.rsplit("/", 1)[-1] == path.rsplit("/", 1)[-1]]
        return gone("file", path, same_name or package.files)
    if not path.endswith(".py"):
        return _in_text(fact, source, package.text(path), path, symbol, by_kind)
    file = symbols.file(path)
    assert file is not None
    at = At(fact, symbols, file, symbol)
    if symbol and symbol not in file.index["symbols"]:
        whole = unqualified(file, symbol)
        where = (file, whole) if whole else symbols.resolve(file, symbol)
        if where is None:
            imported = file.index["imports"].get(symbol.split(".")[0])
            if imported:
                return unknown(f"{symbol} is imported ({imported}), and where it is defined is not there")
            return gone("symbol", symbol, file.index["symbols"])
        at.file, at.symbol = where
    verifier = AT_SOURCE.get(fact.kind) if by_kind else None
    answers = [*_patterns(at, source)]
    if verifier is not None:
        answer = verifier(at)
        # What a run shows (the text of a KeyError, a shell's 137) need not stand in the source.
        answers.append(answer if answer.verdict == HOLDS else _run_shows(fact) or answer)
    return min(answers, key=lambda answer: ORDER.index(answer.verdict)) if answers else NO_PROOF


def unqualified(file: File, symbol: str) -> str | None:
    """The one symbol of a file that ends so, where a fact leaves out its class."""
    found = [name for name in file.index["symbols"] if name.endswith(f".{symbol}")]
    return found[0] if len(found) == 1 else None


# ---- code patterns ----


def _listed(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else [str(item) for item in value or ()]


def _patterns(at: At, source: Mapping[str, Any]) -> Iterator[Answer]:
    for wanted, patterns in ((True, _listed(source.get("has"))), (False, _listed(source.get("lacks")))):
        for pattern in patterns:
            try:
                lines = at.file.lines_of(pattern, at.symbol)
            except SyntaxError:
                yield unknown(f"the pattern {shown(pattern)} is no Python")
                continue
            if wanted and not lines:
                near = [line.strip() for line in _lines_of_symbol(at)]
                yield gone("code", pattern.strip(), near)
            elif not wanted and lines:
                yield differs("code", f"without {pattern}", at.file.lines[lines[0] - 1].strip(), at.file, lines[0])
            else:
                yield holds(at.file, lines[0] if lines else at.file.index["symbols"].get(at.symbol, [0])[0])


def _lines_of_symbol(at: At) -> list[str]:
    if not at.symbol:
        return at.file.lines
    first, last = at.file.index["symbols"][at.symbol]
    return at.file.lines[first - 1 : last]


def _squeezed(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def _in_text(fact: Fact, source: Mapping[str, Any], text: str, path: str, symbol: str, by_kind: bool) -> Answer:
    """A file that is no Python: patterns and names are looked for as text."""
    if symbol and symbol not in text:
        return gone("symbol", symbol, re.findall(r"[\w.-]+", text))
    has, lacks = _listed(source.get("has")), _listed(source.get("lacks"))
    if by_kind and not has:
        says = fact.says
        key = {"env_var": "name", "option": "name", "log_line": "text", "error": "text", "yaml_key": "key"}.get(
            fact.kind
        )
        if key:
            has = [str(says[key])]
        elif fact.kind == "file":
            has = [str(says["path"]).rsplit("/", 1)[-1]]
        elif fact.kind == "signal":
            has = [str(says["signal"]).removeprefix("SIG")]
    if not has and not lacks:
        return NO_PROOF
    flat = _squeezed(text)
    for pattern in has:
        wanted = re.escape(_squeezed(holes_of_braces(pattern) if fact.kind == "log_line" else pattern))
        if not re.search(wanted.replace(re.escape(HOLE), ".{1,60}?"), flat):
            return gone("text", pattern, (line.strip() for line in text.splitlines()))
    for pattern in lacks:
        if _squeezed(pattern) in flat:
            line = next((n for n, line in enumerate(text.splitlines(), 1) if pattern in line), 0)
            return Answer(DIFFERS, f"{path}:{line}", f"without {shown(pattern)}", shown(pattern))
    first = next((n for n, line in enumerate(text.splitlines(), 1) if has and has[0] in line), 0)
    return Answer(HOLDS, f"{path}:{first}" if first else path)


def _in_any_file(source: Mapping[str, Any], package: Package, glob: str) -> Answer:
    """`has` stands in at least one file that the glob names; `lacks` in none."""
    pattern = glob.replace("**/", "*").replace("**", "*")
    files = sorted(
        name for name in package.files if fnmatch.fnmatch(name, pattern) and not name.endswith((".so", ".pyc"))
    )
    if not files:
        return gone("files", glob, package.files)
    for wanted in _listed(source.get("has")):
        if not any(wanted in package.text(name) for name in files):
            return gone(f"text in {glob}", wanted)
    for unwanted in _listed(source.get("lacks")):
        found = next((name for name in files if unwanted in package.text(name)), None)
        if found:
            line = next((n for n, line in enumerate(package.text(found).splitlines(), 1) if unwanted in line), 0)
            return Answer(DIFFERS, f"{found}:{line}", f"{shown(unwanted)} in no file of {glob}", shown(unwanted))
    return Answer(HOLDS, glob)
