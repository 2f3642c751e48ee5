#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the card, the benchmark page and the generated parts of the pages from facts and committed results."""

from mbridge_resiliency import cli

if __name__ == "__main__":
    cli.require_libraries("yaml", "packaging", "tree_sitter", "tree_sitter_bash")
    from mbridge_resiliency.publish.command import main

    cli.run(main)
