#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What happened in a job, and did fault tolerance work? Reads the logs of one job; changes nothing."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Sequence

from mbridge_resiliency import cli


def main(arguments: Sequence[str]) -> int:
    """Run the command; the exit code is one of cli.EXIT_*."""
    parser = argparse.ArgumentParser(
        prog="check_logs.py",
        description=__doc__,
        epilog="Exit code: 0 finished or stopped as asked, nothing to report; 1 something to report; "
        "2 wrong usage or unreadable; 3 nothing recognised, which is never 'healthy'.",
    )
    parser.add_argument(
        "paths", nargs="+", type=Path, metavar="PATH", help="log file, folder, .gz, or - (standard input)"
    )
    parser.add_argument("--format", choices=("text", "json"), default="text")
    options = parser.parse_args(arguments)
    cli.require_libraries("yaml")

    from mbridge_resiliency.logs import examine

    report = examine(options.paths)
    print(report.to_json() if options.format == "json" else report.to_text())
    return report.exit_code


if __name__ == "__main__":
    cli.run(main)
