#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Break a real training run on purpose, watch it recover, and measure both.

    drill.py list
    drill.py run hang
    drill.py run all --save-result results/drills

Each drill starts the real ft_launcher over a small training job of two ranks on this machine: no GPU, no network
beyond 127.0.0.1. Exit code 0: every drill showed what it must; 1: one did not; 2: wrong usage; 3: cannot run here.
"""

from __future__ import annotations

from mbridge_resiliency import cli
from mbridge_resiliency.drills.command import main

if __name__ == "__main__":
    cli.run(main)
