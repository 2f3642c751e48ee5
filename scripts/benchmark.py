#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure how fast the checkers are; BENCHMARK.md is generated from the result."""

from __future__ import annotations

from mbridge_resiliency import cli


def main(arguments: list[str]) -> int:
    """Run the command. Returns its exit code."""
    cli.require_libraries(*cli.CHECKER_LIBRARIES)
    from mbridge_resiliency.publish.speed import main as measure

    return measure(arguments)


if __name__ == "__main__":
    cli.run(main)
