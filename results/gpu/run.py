#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Break examples/fault-tolerance on a machine with one GPU, and record what happened.

    python3 results/gpu/run.py                      # every case, about 12 minutes on one H200
    python3 results/gpu/run.py --case hang crash    # some of them; `healthy` calibrates `hang` and always runs
    python3 results/gpu/run.py --train train.py     # where Transformer Engine is installed

Needs what the example needs: Megatron Bridge, nvidia-resiliency-ext, PyTorch with CUDA, ft_launcher on PATH. Nothing
is replaced: the training is megatron.bridge.training.pretrain.pretrain(), the launcher NVRx's ft_launcher. Each case
leaves CASE.json and CASE.log.gz, the merged output in which only paths (/workspace) and the host's name (node0) are
replaced. All times are seconds on this script's own clock, taken when a line arrives; a fault from outside is timed
when the signal is sent.

    detection  fault -> first line of the rank monitor or the launcher about it
    restart    detection -> the workers of the next cycle have been started
    resume     detection -> the first iteration after the restart has ended
"""

from __future__ import annotations

import argparse
import gzip
import importlib.metadata
import json
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import lru_cache
from pathlib import Path

import yaml

HERE = Path(__file__).resolve().parent
EXAMPLE = HERE.parents[1] / "examples" / "fault-tolerance"
EXPECTED = {
    name: [re.compile(pattern) for pattern in patterns]
    for name, patterns in yaml.safe_load((EXAMPLE / "expected.yaml").read_text()).items()
}

#: Timeouts, scaled down from ft.yaml so that a hang is found within seconds.
SECTIONS = {"setup": 120, "step": 10, "checkpointing": 90, "warmup": 60}
TIMEOUTS = {
    "rank_section_timeouts": SECTIONS,
    "rank_out_of_section_timeout": 60,
    "workload_check_interval": 1.0,
    # Cases run side by side on one GPU: before a restart, the launcher must not wait for the others' memory.
    "gpu_memory_tolerance_mb": 100_000,
}
SAVE_INTERVAL = 100

ITERATION = re.compile(r"\biteration\s+(\d+)/\s*\d+ .*elapsed time per iteration \(ms\): ([\d.]+)")
INITIALIZED = re.compile(r"FT: initialized\.")
SIMULATED = re.compile(r"FT: Simulating fault: ")
DETECTED = re.compile(r"\[Cycle \d+\] (Section|Was out of section|Did not get)|Worker group (FAILED|UNHEALTHY)")
RESTARTED = re.compile(r"Cycle: [1-9]\d* Event: worker_start_completed")
RESUMED = re.compile(r"successfully loaded checkpoint from .* at iteration (\d+)")


@dataclass
class Case:
    """One run: how it is launched, how it is broken, and what its log must show.

    Attributes:
        overrides: Hydra-style overrides of train.py.
        fault: signal sent to rank 0 or to the launcher, and the iteration after which it is sent.
        launcher_options: what stands between ft_launcher and the script; None for launch.sh and TIMEOUTS.
        shows: lists of expected.yaml that the log must show.
        also: further patterns that the log must show, in order.
        exit_code: of the launcher.
        outcome: finished, failed or stopped_on_purpose.
    """

    id: str
    title: str
    overrides: list[str]
    shows: tuple[str, ...] = ("active", "end")
    also: tuple[str, ...] = ()
    fault: tuple[signal.Signals, str, int] | None = None
    launcher_options: list[str] | None = None
    exit_code: int = 0
    outcome: str = "finished"


@dataclass
class Run:
    """What was seen of one run."""

    command: str
    exit_code: int
    lines: list[tuple[float, str]] = field(default_factory=list)  # (seconds, text)
    fault_at: float | None = None
    fault_after_iteration: int | None = None

    def first(self, pattern: re.Pattern[str], after: float = 0.0) -> float | None:
        """Time of the first line that matches, at or after a time."""
        return next((at for at, text in self.lines if at >= after and pattern.search(text)), None)

    def iterations(self, start: float = 0.0, end: float = float("inf")) -> list[tuple[float, int, float]]:
        """(time, iteration, milliseconds per iteration) of the iteration lines between two times."""
        found = ((at, ITERATION.search(text)) for at, text in self.lines if start <= at <= end)
        return [(at, int(match[1]), float(match[2])) for at, match in found if match]


def length(iterations: int, save_interval: int = SAVE_INTERVAL, log_interval: int = 1) -> list[str]:
    """Overrides for the length of a run, in iterations."""
    return [
        f"train.train_iters={iterations}",
        "train.global_batch_size=4",  # one micro-batch: short iterations
        f"checkpoint.save_interval={save_interval}",
        f"logger.log_interval={log_interval}",
    ]


def cases() -> list[Case]:
    """The cases whose settings are known beforehand."""
    resumed = r"successfully loaded checkpoint from .* at iteration 100\b"
    return [
        Case("healthy", "Nothing goes wrong", length(200)),
        Case(
            "stopped",
            "Rank 0 stopped from outside (SIGSTOP) after iteration 120",
            length(250),
            ("active", "hang", "end"),
            (resumed,),
            fault=(signal.SIGSTOP, "rank", 120),
        ),
        Case(
            "crash",
            "Rank 0 killed from outside (SIGKILL) after iteration 120",
            length(250),
            ("active", "crash", "end"),
            (resumed,),
            fault=(signal.SIGKILL, "rank", 120),
        ),
        Case(
            "preempted",
            "SIGTERM to the launcher after iteration 70, signal handlers in the trainer and the data loader",
            [*length(5000), "train.exit_signal_handler=true", "train.exit_signal_handler_for_dataloader=true"],
            ("active",),
            (r"exiting program after receiving SIGTERM", r"All ranks exited gracefully"),
            fault=(signal.SIGTERM, "launcher", 70),
            outcome="stopped_on_purpose",
        ),
        # The launcher signals the process group: a data loader's process without a handler dies, and the save with it.
        Case(
            "preempted_loader_killed",
            "SIGTERM to the launcher after iteration 70, signal handler in the trainer only",
            [*length(5000), "train.exit_signal_handler=true"],
            ("active",),
            (r"initiating graceful stop", r"DataLoader worker \(pid \d+\) is killed by signal: Terminated"),
            fault=(signal.SIGTERM, "launcher", 70),
            exit_code=1,
            outcome="failed",
        ),
        # Only without Transformer Engine: this optimizer's state can then be saved, but not loaded.
        Case(
            "no_progress",
            "Rank 0 killed after iteration 120; the checkpoint cannot be loaded, so no restart makes progress",
            [*length(250), "optimizer.use_distributed_optimizer=true", "ddp.use_distributed_optimizer=true"],
            ("active",),
            (r"Worker group FAILED\. 3/3 attempts left", r"EARLY TERMINATION: 3 consecutive", r"exit code = 93"),
            fault=(signal.SIGKILL, "rank", 120),
            exit_code=93,
            outcome="failed",
        ),
        # FaultTolerancePlugin's own command line; its heartbeat timeouts (1800 and 300) divided by 60.
        Case(
            "plugin_heartbeats",
            "A healthy run under the NeMo-Run plugin's heartbeat timeouts",
            [*length(5000), "ft.enable_ft_package=true", "ft.calc_ft_timeouts=false"],
            (),
            (r"sections=\[\]", r"Did not get initial heartbeat\. Waited 3\d\.\d+ seconds"),
            launcher_options=["--ft-initial_rank_heartbeat_timeout", "30", "--ft-rank_heartbeat_timeout", "5"],
            exit_code=1,
            outcome="failed",
        ),
        Case(
            "calc_without_sections",
            "calc_ft_timeouts=true without section timeouts",
            [*length(200, save_interval=20), "ft.enable_ft_package=true", "ft.calc_ft_timeouts=true"],
            (),
            (r"sections=\[\]", r"saving checkpoint at iteration +20 ", r"KeyError: 'step'"),
            launcher_options=[],
            exit_code=1,
            outcome="failed",
        ),
    ]


def hang(healthy: Run) -> Case:
    """The hang that Bridge simulates itself, at a delay for which the run both resumes and ends.

    Bridge arms the fault in every cycle, `base_delay` to 1.2 x `base_delay` seconds after fault tolerance is set up.
    So it must strike after a save and, after the restart, later than the end of the run.
    """
    lines = healthy.iterations()
    seconds = statistics.median(ms for _, _, ms in lines) / 1000
    set_up = lines[0][0] - healthy.first(INITIALIZED)
    # The first save of a process takes longest; it is the longest gap between two iteration lines.
    save = max(later[0] - earlier[0] for earlier, later in zip(lines, lines[1:], strict=False))
    margin = 5 + (SAVE_INTERVAL + 1) * seconds
    delay = round((set_up + save + margin) / 0.7)
    iterations = round((1.2 * delay - set_up - save + 3) / seconds)
    return Case(
        "hang",
        f"Rank 0 hung by Bridge's simulate_fault, {delay} to {1.2 * delay:.0f} s after set-up",
        [
            *length(iterations),
            "ft.simulate_fault=true",
            "ft.simulated_fault_type=rank_hung",
            "ft.simulated_fault_rank=0",
            f"ft.simulated_fault_base_delay={delay}",
        ],
        ("active", "hang", "end"),
    )


def rank_process(launcher: int) -> int:
    """Process id of rank 0: the child of the launcher that has RANK=0 in its environment."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == launcher and b"RANK=0" in (entry / "environ").read_bytes().split(b"\0"):
                return int(entry.name)
        except OSError:
            continue
    raise RuntimeError("rank 0 is not running")


def run(case: Case, train: str, folder: Path, port: int) -> Run:
    """Run one case and collect its output, with the time at which each line arrived."""
    folder.mkdir(parents=True)
    settings = folder / "ft.yaml"
    settings.write_text(yaml.safe_dump({"fault_tolerance": TIMEOUTS}))
    env = dict(os.environ, CHECKPOINT_DIR=str(folder / "checkpoints"), FT_CFG=str(settings), TRAIN=train)
    env |= {"PYTHONUNBUFFERED": "1", "MASTER_PORT": str(port)}
    if case.launcher_options is None:
        command = ["bash", str(EXAMPLE / "launch.sh"), *case.overrides]
        shown = f"FT_CFG=ft.yaml TRAIN={train} bash launch.sh {' '.join(case.overrides)}"
    else:
        endpoint = [f"--rdzv-endpoint=localhost:{port}", "--nproc-per-node=1"]
        command = ["ft_launcher", *case.launcher_options, *endpoint, str(EXAMPLE / train), *case.overrides]
        shown = " ".join(["ft_launcher", *case.launcher_options, *endpoint, train, *case.overrides])
    process = subprocess.Popen(
        command, cwd=folder, env=env, text=True, errors="replace", stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    seen = Run(shown, -1)
    for text in process.stdout:
        now = time.monotonic()
        seen.lines.append((now, text))
        if seen.fault_at is None and SIMULATED.search(text):
            seen.fault_at = now
        match = ITERATION.search(text)
        if case.fault and match and seen.fault_at is None and int(match[1]) >= case.fault[2]:
            number, target, _ = case.fault
            seen.fault_at = time.monotonic()
            os.kill(process.pid if target == "launcher" else rank_process(process.pid), number)
        if match and seen.fault_at is None:
            seen.fault_after_iteration = int(match[1])
    seen.exit_code = process.wait()
    return seen


def shows(seen: Run, patterns: list[re.Pattern[str]]) -> bool:
    """True where the log has a match of every pattern, in this order."""
    lines = iter(text for _, text in seen.lines)
    return all(any(pattern.search(text) for text in lines) for pattern in patterns)


def measure(seen: Run) -> dict[str, float | None]:
    """Detection, restart and resume of a run, in seconds; None where there was none."""
    measured: dict[str, float | None] = dict.fromkeys(("detection_seconds", "restart_seconds", "resume_seconds"))
    fault = seen.fault_at
    detected = seen.first(DETECTED, fault) if fault else None
    if detected is None:
        return measured
    measured["detection_seconds"] = round(detected - fault, 2)
    restarted = seen.first(RESTARTED, detected)
    if restarted is not None:
        measured["restart_seconds"] = round(restarted - detected, 2)
        after = seen.iterations(start=restarted)
        measured["resume_seconds"] = round(after[0][0] - detected, 2) if after else None
    return measured


def lost_iterations(seen: Run) -> int | None:
    """Iterations that had ended before the fault and were run again; None where nothing was resumed."""
    if seen.fault_at is None:
        return None
    resumed = [RESUMED.search(text) for at, text in seen.lines if at > seen.fault_at]
    iteration = next((int(match[1]) for match in resumed if match), None)
    before = [number for _, number, _ in seen.iterations(end=seen.fault_at)]
    return max(before) - iteration if iteration is not None and before else None


@lru_cache
def versions() -> dict[str, str]:
    """Versions of everything that took part."""
    import torch

    driver, _, gpu = (
        subprocess.run(
            ["nvidia-smi", "--query-gpu=driver_version,name", "--format=csv,noheader"], capture_output=True, text=True
        )
        .stdout.strip()
        .partition(", ")
    )
    packages = ("megatron-bridge", "megatron-core", "nvidia-resiliency-ext")
    return {
        **{name: importlib.metadata.version(name) for name in packages},
        "torch": torch.__version__,
        "cuda": torch.version.cuda or "none",
        "nccl": ".".join(map(str, torch.cuda.nccl.version())),
        "driver": driver,
        "gpu": gpu,
        "python": sys.version.split()[0],
    }


def scrub(text: str, work: Path) -> str:
    """Replace this machine's paths by /workspace and its name by node0."""
    places = {
        str(work),
        str(HERE.parents[1]),
        tempfile.gettempdir(),
        sys.prefix,
        sys.base_prefix,
        *(p for p in sys.path if p.startswith("/")),
    }
    for place in sorted(places - {"/", "/usr"}, key=len, reverse=True):
        text = text.replace(place, "/workspace")
    for name in {socket.getfqdn(), socket.gethostname()} - {"localhost"}:
        text = re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])", "node0", text)
    return text


def missing(case: Case, seen: Run) -> list[str]:
    """What the log should show and does not: names of lists in expected.yaml, or `also`."""
    absent = [name for name in case.shows if not shows(seen, EXPECTED[name])]
    return absent if shows(seen, [re.compile(pattern) for pattern in case.also]) else [*absent, "also"]


def record(case: Case, seen: Run, out: Path, work: Path, label: str) -> bool:
    """Write CASE.json and CASE.log.gz; tell whether the case passed."""
    absent = missing(case, seen)
    measured = measure(seen)
    resumes = bool({"hang", "crash"} & set(case.shows))
    passed = not absent and (not resumes or measured["resume_seconds"] is not None) and seen.exit_code == case.exit_code
    result = {
        "schema_version": 1,
        "case": case.id,
        "title": case.title,
        "label": label,
        "command": seen.command,
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
        "versions": versions(),
        "configured": TIMEOUTS if case.launcher_options is None else {"launcher_options": case.launcher_options},
        "measured": measured,
        "fault_after_iteration": seen.fault_after_iteration if seen.fault_at else None,
        "lost_iterations": lost_iterations(seen),
        "last_iteration": max((number for _, number, _ in seen.iterations()), default=None),
        "exit_code": seen.exit_code,
        "outcome": case.outcome if passed else "unexpected",
        "missing": absent,
        "passed": passed,
    }
    (out / f"{case.id}.json").write_text(scrub(json.dumps(result, indent=2), work) + "\n")
    with open(out / f"{case.id}.log.gz", "wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb", mtime=0) as packed:
        packed.write(scrub("".join(text for _, text in seen.lines), work).encode())
    print(f"{case.id}: {'passed' if passed else 'FAILED'} {json.dumps(measured)}", flush=True)
    return passed


def overhead(train: str, out: Path, work: Path, label: str, repeats: int = 3) -> bool:
    """Mean iteration time with fault tolerance over that without, same run, in turns; written after each pair."""
    means: dict[str, list[float]] = {"with": [], "without": []}
    for repeat in range(repeats):
        for name, switch in (("with", []), ("without", ["ft=null"])):
            overrides = [*length(10_000, save_interval=10_000, log_interval=10), *switch]
            case = Case("overhead", "", overrides, fault=(signal.SIGTERM, "launcher", 300))
            seen = run(case, train, work / f"overhead-{repeat}-{name}", 29500)
            # The first five lines, 50 iterations, are warm-up.
            means[name].append(statistics.mean(ms for _, _, ms in seen.iterations()[5:]))
            print(f"overhead {name}: {means[name][-1]:.3f} ms an iteration", flush=True)
        record_overhead(means, seen.command, out, label)
    return True


def record_overhead(means: dict[str, list[float]], command: str, out: Path, label: str) -> None:
    """Write overhead.json from the mean milliseconds per iteration of each run."""
    ratios = [a / b for a, b in zip(means["with"], means["without"], strict=True)]
    result = {
        "schema_version": 1,
        "case": "overhead",
        "title": "Iteration time with fault tolerance (sections) over that without (ft=null)",
        "label": label,
        "command": command,
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
        "versions": versions(),
        "configured": {**TIMEOUTS, "iterations": 300, "warm_up_iterations": 50, "repeats": len(ratios)},
        "measured": {
            "milliseconds_per_iteration": {
                name: [round(value, 3) for value in values] for name, values in means.items()
            },
            "ratios": [round(ratio, 4) for ratio in ratios],
            "ratio_of_means": round(statistics.mean(means["with"]) / statistics.mean(means["without"]), 4),
        },
        "passed": True,
    }
    (out / "overhead.json").write_text(json.dumps(result, indent=2) + "\n")


def main() -> int:
    """Run the cases; exit code 0 where all passed, 1 otherwise."""
    known = {case.id: case for case in cases()}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--case", nargs="+", choices=[*known, "hang", "overhead"], help="default: all")
    parser.add_argument("--train", default="without_te.py", help="script of the example to run (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=HERE, help="folder for the results (default: beside this script)")
    parser.add_argument("--gpu", default="one H200", help="name of the GPU, for the label (default: %(default)s)")
    args = parser.parse_args()
    wanted = args.case or [*known, "hang", "overhead"]
    label = f"GPU: {args.gpu}, real pretrain()"
    args.out.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix="ft-gpu-"))
    passed = True
    seen: dict[str, Run] = {}

    def side_by_side(group: list[Case]) -> bool:
        ports = range(29500, 29500 + 10 * len(group), 10)
        with ThreadPoolExecutor(len(group)) as pool:
            runs = pool.map(run, group, [args.train] * len(group), [work / case.id for case in group], ports)
            seen.update(zip((case.id for case in group), runs, strict=True))
        return all([record(case, seen[case.id], args.out, work, label) for case in group])

    try:
        chosen = [case for case in known.values() if case.id in wanted or case.id == "healthy"]
        restarted = [case for case in chosen if case.fault and case.fault[1] == "rank"]
        passed &= side_by_side([case for case in chosen if case not in restarted])
        if "end" in missing(known["healthy"], seen["healthy"]):
            print("".join(text for _, text in seen["healthy"].lines[-60:]), flush=True)
            return 1  # nothing that follows could mean anything
        if "hang" in wanted:
            restarted.append(hang(seen["healthy"]))
        if restarted:
            passed &= side_by_side(restarted)
        if "overhead" in wanted:
            passed &= overhead(args.train, args.out, work, label)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
