# SPDX-License-Identifier: Apache-2.0
"""Drills: one fault, one job, and what must be observed.

    catalogue    every drill, declared
    job          the small training job as data, shared by the runner and the ranks
    train        the training script that ft_launcher runs; with model, stack, nvrx_alone and faults
    environment  where the real packages are installed
    processes    finding and ending every process of one drill
    runner       starts the real launcher, loses and replaces nodes, ends everything
    measure      seconds and iterations from the truth and the launcher's lines; pure
    result       the verdict on one run, as data and JSON; text prints it for a person
    command      the command line of drill.py

Only train and the modules that it imports need torch; they run under the drill environment's interpreter.
"""
