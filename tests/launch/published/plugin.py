# SPDX-License-Identifier: Apache-2.0
# The published plugin: heartbeats that Bridge never sends, learned timeouts without sections.
import nemo_run as run
from megatron.bridge.recipes.run_plugins import FaultTolerancePlugin

task = run.Script("scripts/training/run_recipe.py")
plugins = [
    FaultTolerancePlugin(
        calc_ft_timeouts=True,
        num_in_job_restarts=3,
        initial_rank_heartbeat_timeout=1800,
        rank_heartbeat_timeout=300,
    )
]
executor = run.SlurmExecutor(account="a")
run.run(task, executor=executor, plugins=plugins)
