# SPDX-License-Identifier: Apache-2.0
"""The command line of publish.py."""

from __future__ import annotations

import argparse
import difflib
import sys
from typing import Sequence

from .. import cli
from ..upstream import guides
from . import benchmark, card, compatibility, pages, vendor_differences
from .results import ROOT


def generated() -> dict[str, str]:
    """Every file that is generated, whole or in part, as it must be: path from the root -> text."""
    from ..launch import page

    files = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in pages.pages()}
    files = {name: pages.fill(text, name) for name, text in files.items()}
    files["references/launch-rules.md"] = page.render()
    files["references/code-anchors.md"] = guides.render()
    files["references/compatibility.md"] = compatibility.render()
    files["references/vendor-differences.md"] = vendor_differences.render()
    files["card.yaml"] = card.render()
    files["BENCHMARK.md"] = benchmark.render()
    return files


def main(arguments: Sequence[str]) -> int:
    """Run the command. Returns its exit code."""
    parser = argparse.ArgumentParser(
        prog="publish.py",
        description="Write card.yaml, BENCHMARK.md, the generated pages and the generated parts of the others from "
        "facts and committed results.",
        epilog="Exit code 0: everything is as it must be; 1 with --check: something is not.",
    )
    parser.add_argument("--check", action="store_true", help="write nothing; print what differs")
    options = parser.parse_args(arguments)
    try:
        drifted = {name: text for name, text in generated().items() if _current(name) != text}
    except ValueError as error:
        raise cli.InputError(str(error)) from None
    except KeyError as error:
        raise cli.InputError(
            f"{error} is not both a fact and in results/upstream/matrix.json; make that file again with\n"
            "  python3 scripts/check_upstream.py --matrix --save results/upstream/matrix.json"
        ) from None
    for name, text in drifted.items():
        if options.check:
            old, new = _current(name).splitlines(True), text.splitlines(True)
            sys.stdout.writelines(difflib.unified_diff(old, new, name, f"{name} (generated)", n=1))
        else:
            (ROOT / name).write_text(text, encoding="utf-8")
            print(f"wrote {name}", file=sys.stderr)
    if options.check and drifted:
        print(f"{len(drifted)} files differ: {', '.join(drifted)}. Run: python3 scripts/publish.py", file=sys.stderr)
        return cli.EXIT_FINDINGS
    return cli.EXIT_NOTHING


def _current(name: str) -> str:
    path = ROOT / name
    return path.read_text(encoding="utf-8") if path.exists() else ""
