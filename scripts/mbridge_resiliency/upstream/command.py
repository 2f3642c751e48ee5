# SPDX-License-Identifier: Apache-2.0
"""check_upstream: are the facts true of these versions?"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter, defaultdict
from dataclasses import asdict
from pathlib import Path
from typing import Any, Mapping, Sequence

from packaging.version import InvalidVersion, Version

from .. import __version__
from .. import facts as fact_store
from ..cli import EXIT_FINDINGS, EXIT_NOT_MEASURED, EXIT_NOTHING, InputError
from ..facts import Fact
from . import compare, guides, matrix, verify, wheels
from .sources import INSTALLED_ONLY, KNOWN, UNKNOWN_VERSION, Package, Release, checkout, environment
from .verify import Verdict

SCHEMA_VERSION = 1
#: Text output stops here; the last line says how many were left out and how to see them.
MOST_IN_TEXT = 60

EPILOG = """
Without --python, --checkout, --release or --matrix, the packages that your own environment has are checked.
Nothing of upstream is imported or run. Exit codes: 0 every fact checked holds (or needs a run to tell),
1 a fact does not hold or, with --since, something changed, 2 wrong usage, 3 nothing was checked or, with --matrix,
a release could not be read.

  check_upstream.py                                          your environment
  check_upstream.py --release megatron-bridge==0.6.2 --download
  check_upstream.py --checkout /path/to/Megatron-Bridge@v0.6.0
  check_upstream.py --since nvidia-resiliency-ext==0.6.0 --until nvidia-resiliency-ext==0.7.0
"""


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="check_upstream.py",
        description="Check what this skill says about Megatron Bridge, megatron-core, NVRx and NeMo-Run against "
        "the source of the versions you have.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    where = parser.add_argument_group("what to check against")
    where.add_argument("--python", metavar="PATH", help="the packages of another interpreter")
    where.add_argument(
        "--checkout", metavar="DIR[@REV]", action="append", default=[], help="a source checkout; can be repeated"
    )
    where.add_argument(
        "--release", metavar="NAME==VERSION", action="append", default=[], help="wheels; can be repeated"
    )
    where.add_argument("--matrix", action="store_true", help="every release of the matrix")
    where.add_argument("--since", metavar="NAME==VERSION", help="with --until: what changed")
    where.add_argument("--until", metavar="NAME==VERSION")
    where.add_argument("--download", action="store_true", help="fetch missing wheels from the package index")
    which = parser.add_argument_group("which facts")
    which.add_argument("--kind", action="append", default=[], choices=sorted(fact_store.KINDS), metavar="KIND")
    which.add_argument("--id", action="append", default=[], metavar="ID", help="an id, or how it begins")
    which.add_argument("--file", action="append", default=[], metavar="NAME", help="a fact file (log_lines.yaml)")
    which.add_argument(
        "--facts", metavar="PATH", help="a file of your own in the form of scripts/mbridge_resiliency/facts"
    )
    which.add_argument("--outside", action="store_true", help="also in versions that a fact does not claim")
    how = parser.add_argument_group("output")
    how.add_argument("--format", choices=("text", "json"), default="text")
    how.add_argument("--all", action="store_true", help="list what holds and what could not be told, too")
    how.add_argument("--anchors", action="store_true", help="print where each fact stands, as Markdown")
    how.add_argument("--save", metavar="FILE", help="with --matrix: write the result as JSON")
    parser.add_argument("--version", action="version", version=__version__)
    return parser


def main(argv: Sequence[str]) -> int:
    """Run the command.

    Returns:
        The exit code.

    Raises:
        InputError: what is named cannot be read.
    """
    parser = _arguments()
    options = parser.parse_args(argv)
    ways = [bool(options.python), bool(options.checkout), bool(options.release), options.matrix, bool(options.since)]
    if sum(ways) > 1 and not (options.checkout and options.release and sum(ways) == 2):
        parser.error("choose one of --python, --checkout (with --release), --matrix and --since")
    if bool(options.since) != bool(options.until):
        parser.error("--since and --until go together")
    if options.anchors and any(ways):
        parser.error("--anchors reads the releases of the matrix")
    if options.save and not options.matrix:
        parser.error("--save goes with --matrix")
    facts = _chosen(options)
    try:
        if options.since:
            return _since(options, facts)
        if options.anchors:
            return _anchors(options, facts)
        if options.matrix:
            return _matrix(options, facts)
        return _one(options, facts)
    except wheels.NotThere as error:
        print(f"check_upstream.py: {error}", file=sys.stderr)
        return EXIT_NOT_MEASURED


def _all_facts(path: str | None) -> Mapping[str, Fact]:
    import yaml

    try:
        return fact_store.in_file(str(Path(path).absolute())) if path else fact_store.all_facts()
    except (OSError, ValueError, yaml.YAMLError, TypeError, KeyError, AttributeError) as error:
        said = " ".join(str(error).split())
        raise InputError(
            f"the facts cannot be read ({said}); scripts/mbridge_resiliency/facts says their form"
        ) from error


def _chosen(options: argparse.Namespace) -> list[Fact]:
    facts = list(_all_facts(options.facts).values())
    chosen = [
        fact
        for fact in facts
        if (not options.kind or fact.kind in options.kind)
        and (not options.file or fact.file in {Path(name).name for name in options.file})
        and (not options.id or any(fact.id.startswith(wanted) for wanted in options.id))
    ]
    if not chosen:
        raise InputError("no fact is of that kind, id or file")
    return chosen


# ---- one release, or the environment ----


def _release(options: argparse.Namespace) -> Release:
    if options.checkout or options.release:
        found: list[Package] = [package for place in options.checkout for package in checkout(place)]
        named = dict(map(wheels.parse_requirement, options.release))
        wanted = dict(named)
        if list(named) == ["megatron-bridge"] and not options.checkout:
            wanted = matrix.packages_of("megatron-bridge", named["megatron-bridge"])
        found += [wheels.wheel(name, str(version), options.download) for name, version in wanted.items()]
        return Release(str(found[0]), {package.name: package for package in found})
    python, found = environment(options.python)
    missing = {name: f"not installed for {python}" for name in KNOWN if name not in {p.name for p in found}}
    return Release(python, {package.name: package for package in found}, missing)


def _one(options: argparse.Namespace, facts: Sequence[Fact]) -> int:
    release = _release(options)
    if not set(KNOWN) & set(release.packages):
        print(
            f"check_upstream.py: {release.name} has none of {', '.join(KNOWN)}.\n"
            "Name the interpreter that your jobs use (--python PATH), a checkout (--checkout DIR[@REV]) or a release "
            "(--release megatron-bridge==0.6.2 --download).",
            file=sys.stderr,
        )
        return EXIT_NOT_MEASURED
    verdicts = verify.verify_all(facts, release, options.outside)
    if options.format == "json":
        print(json.dumps(_as_data(release, facts, verdicts), indent=2))
    else:
        print(_as_text(options, release, facts, verdicts))
    if not any(verdict.claims for verdict in verdicts):
        return EXIT_NOT_MEASURED
    return _code(verdicts)


def _code(verdicts: Sequence[Verdict]) -> int:
    return EXIT_FINDINGS if any(map(_failed, verdicts)) else EXIT_NOTHING


def _failed(verdict: Verdict) -> bool:
    return verdict.claims and verdict.verdict in (verify.DIFFERS, verify.GONE)


def _unclaimed(verdicts: Sequence[Verdict]) -> list[Verdict]:
    return [verdict for verdict in verdicts if not verdict.claims and verdict.verdict == verify.HOLDS]


def _unverified(release: Release) -> list[str]:
    """Versions that are newer than, or between, the releases of the matrix."""
    notes = []
    for name, version in release.versions().items():
        known = _verified(name)
        if version == UNKNOWN_VERSION:
            notes.append(f"The version of {name} cannot be told, so that few facts claim it: name a tag, DIR@TAG.")
        elif known and version not in known:
            try:
                newer = Version(version) > Version(known[-1])
            except InvalidVersion:
                newer = True
            what = f"newer than the newest verified release ({known[-1]})" if newer else "not a verified release"
            notes.append(f"{name} {version} is {what}; verified: {', '.join(known)}.")
    return notes


def _verified(name: str) -> list[str]:
    """The versions of a package in the matrix, oldest first."""
    return sorted({str(row[name]) for row in matrix.table()["releases"] if name in row}, key=Version)


def _older(release: Release) -> list[str]:
    """For each package that is older than the newest verified version, how to see what has changed since."""
    lines = []
    for name, version in release.versions().items():
        known = _verified(name)
        if version in known[:-1]:
            ask = f"--since {name}=={version} --until {name}=={known[-1]} --download"
            lines.append(f"{name} {known[-1]} is verified, too; what has changed until then: {ask}")
    return lines


def _absent(release: Release, facts: Sequence[Fact]) -> Counter[str]:
    """Package -> number of facts that could not be checked because it is not there."""
    return Counter(fact.source["package"] for fact in facts if not verify.about(fact, release))


def _as_data(release: Release, facts: Sequence[Fact], verdicts: Sequence[Verdict]) -> dict[str, Any]:
    by_id = {fact.id: fact for fact in facts}
    counts = Counter(verdict.verdict for verdict in verdicts if verdict.claims)
    return {
        "schema_version": SCHEMA_VERSION,
        "tool_version": __version__,
        "release": release.name,
        "packages": [
            {"name": package.name, "version": package.version, "origin": package.origin}
            for package in release.packages.values()
        ],
        "missing": release.missing,
        "notes": _unverified(release),
        "counts": {verdict: counts[verdict] for verdict in verify.VERDICTS},
        "not_checked": dict(_absent(release, facts)),
        "guides": _touched(by_id, verdicts),
        "verdicts": [asdict(verdict) | {"guides": guides.pages_of(by_id[verdict.fact])} for verdict in verdicts],
    }


def _touched(by_id: dict[str, Fact], verdicts: Sequence[Verdict]) -> list[str]:
    pages = [page for v in verdicts if _failed(v) for page in guides.pages_of(by_id[v.fact])]
    return sorted(set(pages))


def _block(verdict: Verdict, fact: Fact, releases: Sequence[str] = ()) -> list[str]:
    words = {verify.COULD_NOT_TELL: "could not tell"}.get(verdict.verdict, verdict.verdict)
    where = f" in {', '.join(releases)}" if releases else ""
    lines = [f"{verdict.fact}: {words}{where}{f' ({verdict.place})' if verdict.place else ''}"]
    said = [("claimed", verdict.claimed), ("found", verdict.found), ("because", verdict.reason)]
    if fact.kind == "upstream_bug":
        said += [("symptom", fact.says["symptom"]), ("way round", fact.says["way_round"])]
    if _failed(verdict):
        said.append(("stated in", ", ".join(guides.pages_of(fact))))
    return lines + [f"  {label}: {value}" for label, value in said if value]


def _as_text(options: argparse.Namespace, release: Release, facts: Sequence[Fact], verdicts: Sequence[Verdict]) -> str:
    by_id = {fact.id: fact for fact in facts}
    lines = [*_found(release), *_unverified(release)]
    claimed = [v for v in verdicts if v.claims]
    shown = [v for v in claimed if options.all or _failed(v)]
    lines.append("")
    for verdict in shown[: None if options.all else MOST_IN_TEXT]:
        lines += _block(verdict, by_id[verdict.fact])
    if len(shown) > MOST_IN_TEXT and not options.all:
        lines.append(f"... and {len(shown) - MOST_IN_TEXT} more; --all or --format json prints them.")
    lines += [f"{v.fact}: holds here, and does not claim it ({v.place})" for v in _unclaimed(verdicts)]
    lines += [""] if shown else []
    lines.append(_summary(claimed))
    lines += _not_checked(release, facts)
    return "\n".join([*lines, *_next(options, by_id, claimed), *(_older(release) if claimed else ())])


def _found(release: Release) -> list[str]:
    """Packages and versions, those of one place together, and what is missing."""
    places: dict[str, list[str]] = defaultdict(list)
    for package in release.packages.values():
        places[package.origin].append(str(package))
    lines = [f"{', '.join(packages)}\n  in {origin}" for origin, packages in places.items()]
    reasons: dict[str, list[str]] = defaultdict(list)
    for name, why in release.missing.items():
        reasons[why].append(name)
    return [*lines, *(f"{', '.join(names)}: {why}" for why, names in reasons.items())]


def _not_checked(release: Release, facts: Sequence[Fact]) -> list[str]:
    lines = []
    other = sum(verify.about(fact, release) and not verify.claims_release(fact, release) for fact in facts)
    if other:
        lines.append(f"{other} more are about other versions of these packages.")
    absent = _absent(release, facts)
    for why, known in (("the package is not there", True), ("this command does not read the package", False)):
        counts = [f"{n} about {name}" for name, n in sorted(absent.items()) if (name in verify.READ) == known]
        if counts:
            lines.append(f"Not checked, because {why}: {', '.join(counts)}.")
    return lines


def _next(options: argparse.Namespace, by_id: Mapping[str, Fact], claimed: Sequence[Verdict]) -> list[str]:
    """What to do with the answer."""
    if not claimed:
        return []
    failed = [v for v in claimed if _failed(v)]
    touched = Counter(page for v in failed for page in guides.pages_of(by_id[v.fact]))
    if failed and touched:
        pages = ", ".join(f"{page} ({count})" for page, count in sorted(touched.items()))
        lines = [f"Next: read these with care, they state what does not hold here: {pages}."]
        lines.append("Where a page and the lines above differ, the lines above are right for your versions.")
    elif not failed:
        lines = ["Nothing that the guides say of these versions is contradicted by the source."]
    else:
        lines = ["No page rests on what does not hold here."]
    bugs = [v for v in claimed if v.kind == "upstream_bug" and v.verdict == verify.HOLDS]
    if bugs and not (options.kind or options.all):
        lines.append(f"{len(bugs)} known upstream bugs are in these versions; --kind upstream_bug --all lists them.")
    return lines


def _summary(verdicts: Sequence[Verdict]) -> str:
    counts = Counter(verdict.verdict for verdict in verdicts)
    runs = sum(v.reason.startswith("a run shows it") for v in verdicts)
    return (
        f"{len(verdicts)} checks: {counts[verify.HOLDS]} hold, {counts[verify.DIFFERS]} differ, "
        f"{counts[verify.GONE]} gone, {counts[verify.COULD_NOT_TELL]} could not tell"
        f"{f' (only a run shows {runs} of them)' if runs else ''}."
    )


# ---- the matrix ----


def _matrix(options: argparse.Namespace, facts: Sequence[Fact]) -> int:
    rows = matrix.run(facts, options.download, options.outside or bool(options.save))
    data = matrix.as_data(rows, facts) | {"anchors": guides.anchors(facts, rows)}
    if options.save:
        target = Path(options.save)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    verdicts = [verdict for row in rows for verdict in row.verdicts]
    print(json.dumps(data, indent=2) if options.format == "json" else _matrix_text(options, rows, facts, verdicts))
    missing = [row for row in rows if row.missing]
    if missing:
        names = ", ".join(row.name for row in missing)
        print(f"check_upstream.py: not read: {names}. {missing[0].missing}", file=sys.stderr)
    if _code(verdicts) == EXIT_FINDINGS:
        return EXIT_FINDINGS
    return EXIT_NOT_MEASURED if missing or not verdicts else EXIT_NOTHING


def _matrix_text(
    options: argparse.Namespace, rows: Sequence[matrix.Row], facts: Sequence[Fact], verdicts: Sequence[Verdict]
) -> str:
    by_id = {fact.id: fact for fact in facts}
    lines: list[str] = []
    shown = [v for v in verdicts if v.claims and (options.all or _failed(v))]
    groups: dict[tuple[str, ...], list[Verdict]] = defaultdict(list)
    for verdict in shown:
        groups[verdict.fact, verdict.verdict, verdict.claimed, verdict.found, verdict.reason].append(verdict)
    for group in list(groups.values())[: None if options.all else MOST_IN_TEXT]:
        lines += _block(group[-1], by_id[group[-1].fact], [verdict.release for verdict in group])
    if len(groups) > MOST_IN_TEXT and not options.all:
        lines.append(f"... and {len(groups) - MOST_IN_TEXT} more; --all or --format json prints them.")
    elsewhere: dict[str, list[str]] = defaultdict(list)
    for verdict in _unclaimed(verdicts) if options.outside else ():
        elsewhere[verdict.fact].append(verdict.release)
    lines += [f"{fact}: holds in {', '.join(names)}, which it does not claim" for fact, names in elsewhere.items()]
    lines += ["", f"{'release':32}{'holds':>8}{'differs':>9}{'gone':>6}{'could not tell':>16}  read with"]
    for row in rows:
        counts = Counter(v.verdict for v in row.verdicts if v.claims)
        numbers = f"{counts['holds']:>8}{counts['differs']:>9}{counts['gone']:>6}{counts['could_not_tell']:>16}"
        rest = ", ".join(f"{name} {version}" for name, version in list(row.packages.items())[1:])
        lines.append(f"{row.name:32}{'    no wheel' if row.missing else numbers}  {rest}")
    unread = Counter(fact.source["package"] for fact in facts if not verify.readable(fact))
    never = {fact.id for fact in facts if fact.source["package"] in KNOWN} - {v.fact for v in verdicts if v.claims}
    installed = Counter(fact.source["package"] for fact in facts if fact.source["package"] in INSTALLED_ONLY)
    lines += ["", f"{len(facts)} facts; {_summary([v for v in verdicts if v.claims])}"]
    if unread:
        said = ", ".join(f"{name} {count}" for name, count in sorted(unread.items()))
        lines.append(f"About packages that are not read here: {said}.")
    if installed:
        said = ", ".join(f"{name} {count}" for name, count in sorted(installed.items()))
        lines.append(f"Checked only where it is installed: {said}.")
    if never:
        lines.append(f"In no release of the matrix ({len(never)}): {', '.join(sorted(never)[:20])}")
    return "\n".join(lines)


# ---- changes and anchors ----


def _named(text: str, download: bool) -> Release:
    name, version = wheels.parse_requirement(text)
    return matrix.release(matrix.packages_of(name, version), download)


def _since(options: argparse.Namespace, facts: Sequence[Fact]) -> int:
    since, until = (_named(text, options.download) for text in (options.since, options.until))
    found = compare.changes(since, until, facts)
    if options.format == "json":
        body = {
            "schema_version": SCHEMA_VERSION,
            "tool_version": __version__,
            "since": since.versions(),
            "until": until.versions(),
            "changes": [asdict(change) for change in found],
        }
        print(json.dumps(body, indent=2))
        return EXIT_FINDINGS if found else EXIT_NOTHING
    versions = [", ".join(map(str, release.packages.values())) for release in (since, until)]
    print(f"{versions[0]}\n  -> {versions[1]}")
    area = ""
    for change in found:
        if change.area != area:
            area = change.area
            print(f"\n{area}")
        arrow = " -> ".join(filter(None, (change.before, change.after)))
        print(f"  {change.change}: {change.what}{f': {arrow}' if arrow else ''}")
    counts = Counter(change.area for change in found)
    print(f"\n{', '.join(f'{count} {name}' for name, count in counts.items()) or 'nothing'} changed.")
    return EXIT_FINDINGS if found else EXIT_NOTHING


def _anchors(options: argparse.Namespace, facts: Sequence[Fact]) -> int:
    rows = matrix.run(facts, options.download)
    missing = [row for row in rows if row.missing]
    if missing:
        raise wheels.NotThere(missing[0].missing)
    print(guides.page(guides.anchors(facts, rows)), end="")
    return EXIT_NOTHING
