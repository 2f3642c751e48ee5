# SPDX-License-Identifier: Apache-2.0
"""The command line of drill.py."""

from __future__ import annotations

import argparse
import functools
import json
import signal
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Sequence

from .. import cli, logs
from . import catalogue, environment, processes, result, runner
from .catalogue import Drill
from .environment import Environment, NotPrepared
from .job import LOGS
from .text import describe


def main(arguments: Sequence[str]) -> int:
    """Run the command. Returns its exit code."""
    options = _parser().parse_args(arguments)
    if options.action == "list":
        return _list(options.format)
    return _run(options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="drill.py",
        description="Break a real training run on purpose, watch it recover, and measure both.",
        epilog="Exit code 0: every drill showed what it must; 1: one did not; 2: wrong usage; 3: cannot run here.",
    )
    actions = parser.add_subparsers(dest="action", required=True)
    listing = actions.add_parser("list", help="name every drill")
    running = actions.add_parser("run", help="run drills")
    running.add_argument("names", nargs="+", metavar="NAME", help="drills, or all; 'hang' is short for hang-stopped")
    running.add_argument("--nvrx", metavar="VERSION", default=environment.DEFAULT_NVRX, help="default %(default)s")
    running.add_argument(
        "--out", type=Path, metavar="DIR", help="where to keep the runs; default a new folder in the cache"
    )
    running.add_argument("--save-result", type=Path, metavar="DIR", help="also write DIR/<nvrx version>/<drill>.json")
    running.add_argument(
        "--without-bridge", action="store_true", help="drive NVRx alone, as where Megatron Bridge is not installed"
    )
    for action in (listing, running):
        action.add_argument("--format", choices=("text", "json"), default="text")
    return parser


def _list(format_: str) -> int:
    if format_ == "json":
        entries = [{**asdict(drill), "configured": drill.configured} for drill in catalogue.DRILLS.values()]
        print(json.dumps({"schema_version": result.SCHEMA_VERSION, "drills": entries}, indent=2))
        return cli.EXIT_NOTHING
    width = max(map(len, catalogue.DRILLS))
    for drill in catalogue.DRILLS.values():
        print(f"{drill.name:{width}}  {drill.title}")
    for alias, name in catalogue.ALIASES.items():
        print(f"{alias:{width}}  short for {name}")
    return cli.EXIT_NOTHING


def _run(options: argparse.Namespace) -> int:
    drills = _chosen(options.names)
    cli.require_libraries("yaml", "packaging")  # what reading the logs needs
    if not processes.supported():
        return _cannot("drills need Linux: they find their processes in /proc.")
    try:
        found = environment.find(options.nvrx)
    except NotPrepared as error:
        return _cannot(str(error))
    if options.without_bridge:
        found = found.without_bridge()
    out = options.out or cli.cache_dir() / "drills" / time.strftime("%Y%m%d-%H%M%S")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that a run ends its processes
    results = []
    for drill in drills:
        if not found.bridge and drill.job.needs_bridge:
            return _cannot(f"{drill.name} needs Megatron Bridge, which {found.python} does not have (Python 3.12).")
        folder = out / drill.name
        if folder.exists():
            raise cli.InputError(f"{folder} exists; name another folder with --out.")
        _say(f"{drill.name}: {drill.title}; takes about half a minute; kept in {folder}")
        results.append(_one(drill, found, folder))
        if options.format == "text":
            print(describe(results[-1]), flush=True)
        if options.save_result:
            _write(results[-1], options.save_result / options.nvrx / f"{drill.name}.json")
    if options.format == "json":
        print(json.dumps([each.as_dict() for each in results], indent=2))
    elif len(results) > 1:
        failed = [each.drill.name for each in results if not each.passed]
        print(f"{len(results)} drills: " + (f"not passed: {', '.join(failed)}" if failed else "all passed"))
    return cli.EXIT_NOTHING if all(each.passed for each in results) else cli.EXIT_FINDINGS


#: Most drills break the same job: its undisturbed end is computed once, in seconds.
_undisturbed = functools.cache(runner.undisturbed_weights)


def _one(drill: Drill, found: Environment, folder: Path) -> result.Result:
    run = runner.run(drill, found, folder)
    undisturbed = _undisturbed(replace(drill.job, fault=None), found.python)
    story = logs.examine([folder / LOGS]).to_dict()
    judged = result.judge(drill, found, run, undisturbed, story)
    _write(judged, folder / "result.json")
    return judged


def _chosen(names: Sequence[str]) -> list[Drill]:
    if "all" in names:
        return list(catalogue.DRILLS.values())
    try:
        return [catalogue.find(name) for name in dict.fromkeys(names)]
    except KeyError as error:
        raise cli.InputError(f"no drill is called {error}; there are: {', '.join(catalogue.DRILLS)}, all.") from None


def _write(judged: result.Result, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(judged.as_dict(), indent=2) + "\n", encoding="utf-8")


def _cannot(why: str) -> int:
    _say(f"drill.py: {why}")
    return cli.EXIT_NOT_MEASURED


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
