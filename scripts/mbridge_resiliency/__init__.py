# SPDX-License-Identifier: Apache-2.0
"""The library behind the commands in scripts/: facts, launch checks, logs, drills, reports."""

__version__ = "0.1.0"
