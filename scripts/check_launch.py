#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Will this job survive? Reads launch scripts, training scripts and ft YAML files as one job."""

from mbridge_resiliency import cli

if __name__ == "__main__":
    cli.require_libraries("yaml", "packaging", "tree_sitter", "tree_sitter_bash")
    from mbridge_resiliency.launch.command import main

    cli.run(main)
