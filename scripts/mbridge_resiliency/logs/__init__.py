# SPDX-License-Identifier: Apache-2.0
"""What the logs of one job tell: reading, signatures, events, cycles, causes, the verdict.

reading   paths -> blocks of bytes          cycles    events -> what happened between two starts
scan      blocks -> events                  causes    a cycle -> why it ended
events    what one line tells               verdict   cycles -> incidents, features, outcome, action
signatures  the lines, and what they mean   story     all of it -> text and JSON
"""

from __future__ import annotations

from pathlib import Path
from typing import Sequence

from .story import Report, examine_files


def examine(paths: Sequence[Path]) -> Report:
    """Read the logs of one job: files, folders, .gz, or - for standard input.

    Raises:
        mbridge_resiliency.cli.InputError: a path cannot be read; the message says which and why.
    """
    return examine_files(paths)


__all__ = ["Report", "examine"]
