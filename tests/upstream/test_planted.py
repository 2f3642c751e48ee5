# SPDX-License-Identifier: Apache-2.0
"""An error planted in a scratch copy of the real upstream is found, with the right verdict and both values."""

# ruff: noqa: E501  (a case a line)

import shutil

import pytest

from mbridge_resiliency.facts import Fact
from mbridge_resiliency.upstream import sources, verify

NVRX = "nvidia_resiliency_ext/fault_tolerance"
BRIDGE = "megatron/bridge/training"


def fact(kind, file, symbol, **says):
    package = "nvidia-resiliency-ext" if file.startswith("nvidia") else "megatron-bridge"
    if file.startswith("megatron/training"):
        package = "megatron-core"
    return Fact("planted", kind, says, {}, {"package": package, "file": file, "symbol": symbol})


HANG = "[Cycle {n}] Section '{section}' has been open for {elapsed} seconds. Timeout is {timeout} seconds."
FACTS = {
    "option": fact("option", f"{NVRX}/launcher.py", "get_args_parser", name="--max-restarts", takes="one", default=0),
    "followed": fact("option", f"{NVRX}/launcher.py", "get_args_parser", name="--ft-log-server-port", takes="one", default=50051),
    "field": fact("config_field", f"{NVRX}/config.py", "FaultToleranceConfig",
        **{"class": "FaultToleranceConfig", "field": "safety_factor", "type": "float", "default": 5.0}),
    "inherited": fact("config_field", f"{BRIDGE}/config.py", "CheckpointConfig",
        **{"class": "CheckpointConfig", "field": "save", "type": "Optional[str]", "default": None}),
    "line": fact("log_line", f"{NVRX}/rank_monitor_server.py", "RankMonitorServer", text=HANG, level="WARNING", logger="nvrx", rank="any"),
    "printed": fact("log_line", f"{BRIDGE}/fault_tolerance.py", "setup", text="FT: initialized. Timeouts={t}", level="none", logger="stdout", rank="0"),
    "error": fact("error", f"{BRIDGE}/fault_tolerance.py", "setup", raises="ValueError", text="checkpointing save dir must be set to enable fault tolerance"),
    "constant": fact("constant", f"{BRIDGE}/fault_tolerance.py", "_NUM_WARMUP_ITERS", name="_NUM_WARMUP_ITERS", value=1),
    "section": fact("section", f"{BRIDGE}/fault_tolerance.py", "on_training_step_start", name="step"),
    "file": fact("file", f"{BRIDGE}/fault_tolerance.py", "setup", path="{save}/ft_state.json", written_by="rank 0"),
}  # fmt: skip

#: (fact, file, what stands there, what is planted, verdict, what the verdict mentions)
PLANTED = [
    ("option", f"{NVRX}/launcher.py", '"--max_restarts",\n        action=env,\n        type=int,\n        default=0', '"--max_restarts",\n        action=env,\n        type=int,\n        default=3', "differs", "default 3"),
    ("option", f"{NVRX}/launcher.py", '"--max-restarts",\n        "--max_restarts",', '"--max-retries",\n        "--max_retries",', "gone", "--max-retries"),
    ("followed", f"{NVRX}/cli_args.py", "default=50051", "default=50052", "differs", "50052"),
    ("field", f"{NVRX}/config.py", "safety_factor: float = 5.0", "safety_factor: float = 4.0", "differs", "4.0"),
    ("field", f"{NVRX}/config.py", "safety_factor: float = 5.0", "safety_factor: int = 5", "differs", "int"),
    ("field", f"{NVRX}/config.py", "safety_factor: float = 5.0", "safety_margin: float = 5.0", "gone", "safety_margin"),
    ("inherited", "megatron/training/config/training_config.py", "    save: str | None = None", "    save: str | None = 'out'", "differs", "'out'"),
    ("line", f"{NVRX}/rank_monitor_server.py", "has been open for", "was open for", "differs", "was open for"),
    ("line", f"{NVRX}/rank_monitor_server.py", "seconds. \"\n                    f\"Timeout is", "seconds; \"\n                    f\"Timeout is", "differs", "seconds; Timeout"),
    ("line", f"{NVRX}/rank_monitor_server.py", "self.logger.warning(\n                    f\"[Cycle {self.current_cycle}] Section", "self.logger.info(\n                    f\"[Cycle {self.current_cycle}] Section", "differs", "info"),
    ("printed", f"{BRIDGE}/fault_tolerance.py", "FT: initialized. Timeouts=", "Watching with", "gone", ""),
    ("error", f"{BRIDGE}/fault_tolerance.py", "raise ValueError(\"checkpointing", "raise RuntimeError(\"checkpointing", "differs", "RuntimeError"),
    ("constant", f"{BRIDGE}/fault_tolerance.py", "_NUM_WARMUP_ITERS: int = 1\n", "_NUM_WARMUP_ITERS: int = 2\n", "differs", "2"),
    ("section", f"{BRIDGE}/fault_tolerance.py", "start_section(\"step\")", "start_section(\"train\")", "gone", "setup"),
    ("file", f"{BRIDGE}/fault_tolerance.py", "ft_state.json", "ft_timeouts.json", "gone", ""),
]  # fmt: skip


@pytest.fixture(scope="module")
def scratch(real, tmp_path_factory):
    """A copy of what the facts above are about, as a source tree on a path."""
    place = real("0.7.0", bridge=True)
    folder = tmp_path_factory.mktemp("upstream")
    for part in (NVRX, f"{BRIDGE}", "megatron/training/config", "nvidia_resiliency_ext/shared_utils"):
        shutil.copytree(place / part, folder / part)
    for marker in sources.KNOWN.values():
        if (place / marker).is_file():
            (folder / marker).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(place / marker, folder / marker)
    return folder


def verdict_on(name, folder):
    packages = {package.name: package for package in sources.installed([str(folder)])}
    (verdict,) = verify.verify_all([FACTS[name]], sources.Release("scratch", packages))
    return verdict


@pytest.mark.parametrize("name", FACTS)
def test_unchanged_it_holds(scratch, name):
    assert verdict_on(name, scratch).verdict == "holds"


@pytest.mark.parametrize(
    "name,file,there,planted,wanted,mentions", PLANTED, ids=[f"{p[0]}-{p[4]}-{n}" for n, p in enumerate(PLANTED)]
)
def test_planted(scratch, name, file, there, planted, wanted, mentions):
    path = scratch / file
    original = path.read_text()
    assert there in original
    path.write_text(original.replace(there, planted))
    try:
        verdict = verdict_on(name, scratch)
    finally:
        path.write_text(original)
    assert verdict.verdict == wanted, verdict
    assert mentions in f"{verdict.found} {verdict.reason}"


@pytest.mark.parametrize("name", ["field", "line"])
def test_a_file_that_moved_is_gone_and_its_new_place_named(scratch, name):
    path = scratch / FACTS[name].source["file"]
    moved = path.parent / "moved" / path.name
    moved.parent.mkdir(exist_ok=True)
    path.rename(moved)
    try:
        verdict = verdict_on(name, scratch)
    finally:
        moved.rename(path)
    assert (verdict.verdict, f"moved/{path.name}" in verdict.reason) == ("gone", True)
