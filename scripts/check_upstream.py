#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Is what this skill says true of my versions? See --help."""

import os
import sys

from mbridge_resiliency.cli import require_libraries, run

if __name__ == "__main__":
    # require_libraries may go on under another interpreter: the user's environment is that of the first.
    os.environ.setdefault("MBRIDGE_RESILIENCY_PYTHON", sys.executable)
    require_libraries("yaml", "packaging")
    from mbridge_resiliency.upstream.command import main

    run(main)
