# SPDX-License-Identifier: Apache-2.0
"""What is published about this skill, made from facts and committed results.

    results    the committed result files, read
    blocks     the generated parts of the pages: one function for each name that a page can use
    pages      finds the blocks in the pages and fills them
    card       card.yaml: card_source.yaml (what a person decided) with the results (what was measured)
    benchmark  BENCHMARK.md
    speed      benchmark.py: measures the checkers
    command    publish.py

The other measurements are made by drill.py and results/gpu/run.py.
"""
