# SPDX-License-Identifier: Apache-2.0
"""Shell scripts: the launch that a script leads to, whatever stands around it."""

from __future__ import annotations

import pytest

from mbridge_resiliency.launch.model import HOLE, MISSING, Launch
from mbridge_resiliency.launch.read import job_of


def launch_of(text: str, **more: str) -> Launch:
    files = {"job.sh": text, **{name.replace("_", ".", 1): body for name, body in more.items()}}
    [launch] = job_of(files).launches
    return launch


@pytest.mark.parametrize(
    "line",
    [
        "ft_launcher --max-restarts=3 train.py",
        "exec ft_launcher --max_restarts 3 train.py",
        "env A=1 -u B ft_launcher --max-restarts 3 train.py",
        "A=1 timeout -k 10 3600 nohup ft_launcher --max-restarts=3 train.py",
        "numactl -N 0 --membind=0 ft_launcher --max-restarts=3 train.py",
        "srun -l -N2 --ntasks-per-node 1 --container-image=img ft_launcher --max-restarts=3 train.py",
        "srun --mpi pmix bash -c 'ft_launcher --max-restarts=3 train.py'",
        'srun bash -lc "cd /x && exec ft_launcher --max-restarts=3 train.py"',
        "apptainer exec --nv -B /a:/a image.sif ft_launcher --max-restarts=3 train.py",
        "srun apptainer exec image.sif bash -c 'ft_launcher --max-restarts=3 train.py'",
        "docker run --rm --gpus all -v /a:/a -e A=1 image:1 ft_launcher --max-restarts=3 train.py",
        "uv run --with x ft_launcher --max-restarts=3 train.py",
        "uv run python -m nvidia_resiliency_ext.fault_tolerance.launcher --max-restarts=3 train.py",
        "/opt/venv/bin/ft_launcher --max-restarts=3 train.py",
        "some-site-wrapper --flag ft_launcher --max-restarts=3 train.py",
        'R=3; ft_launcher --max-restarts=$R "train.py"',
        'ARGS=(--max-restarts=3)\nft_launcher "${ARGS[@]}" train.py',
        "ARGS=(--standalone)\nARGS+=(--max-restarts 3)\nft_launcher ${ARGS[@]} train.py",
        'ARGS="--standalone --max-restarts=3"\nft_launcher $ARGS train.py',
        'CMD="ft_launcher --max-restarts=3 train.py"\n$CMD',
        'CMD="ft_launcher --max-restarts=3 train.py"\nsrun sh -c "$CMD"',
        "R=${R:-3}\nft_launcher --max-restarts=$R train.py",
        "ft_launcher --max-restarts=$((1 + 2)) train.py",
        "start() { ft_launcher --max-restarts=$1 train.py; }\nstart 3",
        'start() { ft_launcher "$@" train.py; }\nstart --max-restarts 3',
        'if [ -n "$X" ]; then R=3; else R=3; fi\nft_launcher --max-restarts=$R train.py',
        "ft_launcher \\\n  --max-restarts=3 \\\n  train.py",
        "srun bash <<'EOF'\nft_launcher --max-restarts=3 train.py\nEOF",
        "cat > run.sh <<'EOF'\nft_launcher --max-restarts=3 train.py\nEOF\nsrun bash run.sh",
        "export PET_MAX_RESTARTS=3\nft_launcher train.py",
        "case $X in a) ft_launcher --max-restarts=3 train.py;; esac",
        "(ft_launcher --max-restarts=3 train.py)",
        "ft_launcher --max-restarts=3 train.py > log 2>&1",
        "! ft_launcher --max-restarts=3 train.py",
    ],
)
def test_the_same_launch(line: str) -> None:
    launch = launch_of(line + "\n")
    assert launch.program == "ft_launcher"
    assert launch.value("--max-restarts") == "3"
    assert launch.script is not None and launch.script.text == "train.py"


@pytest.mark.parametrize(
    "line",
    [
        "echo ft_launcher --max-restarts=3 train.py",
        "which ft_launcher",
        "command -v ft_launcher",
        "pkill -f ft_launcher",
        "ft_launcher --help",
        "# ft_launcher train.py",
        "cat <<EOF\nft_launcher train.py\nEOF",
    ],
)
def test_no_launch(line: str) -> None:
    assert job_of({"job.sh": line + "\n"}).launches == []


@pytest.mark.parametrize(
    "line",
    [
        "ft_launcher --max-restarts=$RESTARTS train.py",
        "ft_launcher $LAUNCH_ARGS train.py",
        'ft_launcher "$@" train.py',
        "ft_launcher --max-restarts=$(cat restarts) train.py",
        "R=1\nif [ $X ]; then R=2; fi\nft_launcher --max-restarts=$R train.py",
        "for r in 1 2; do ft_launcher --max-restarts=$r train.py; done",
        "R=3\nread R\nft_launcher --max-restarts=${R:-$X} $MORE_ARGS train.py",
    ],
)
def test_unknown_stays_unknown(line: str) -> None:
    value = launch_of(line + "\n").value("--max-restarts")
    assert value is not MISSING and (HOLE in value or line.startswith("R=3"))


def test_what_follows_the_script_belongs_to_it() -> None:
    launch = launch_of("ft_launcher train.py --max-restarts=3 --ft-log-level DEBUG\n")
    assert launch.value("--max-restarts") is MISSING
    assert [word.text for word in launch.arguments] == ["--max-restarts=3", "--ft-log-level", "DEBUG"]


def test_sourced_and_called_files_are_followed_only_when_given() -> None:
    text = "source env.sh\nsrun bash train.sh a\n"
    files = {"job.sh": text, "env.sh": "export R=3\n", "train.sh": "ft_launcher --max-restarts=$R $1.py\n"}
    [launch] = job_of(files).launches
    assert (launch.value("--max-restarts"), launch.script.text) == ("3", "a.py")
    assert launch.step is not None and launch.place.file == "train.sh"
    job = job_of({"job.sh": text})
    assert job.launches == [] and job.unread[0][0] == "train.sh"


def test_srun_options_environment_and_directives() -> None:
    launch = launch_of(
        "#!/bin/bash\n#SBATCH -N 4 --ntasks-per-node=8\n#SBATCH --time=1:00:00  # a comment\n"
        "export A=1\nB=2 srun -n4 -K --export=ALL,C=3 ft_launcher --nnodes=$SLURM_NNODES train.py\n"
    )
    assert launch.step is not None and launch.step.options["ntasks"] == "4"
    assert launch.step.options["kill-on-bad-exit"] == "1"
    assert {"A": "1", "B": "2", "C": "3"}.items() <= launch.environment.items()
    assert launch.directives is not None and launch.directives.get("nodes") == "4"
    assert launch.nodes() == (4, 4)


def test_the_line_in_double_quotes_and_from_a_variable() -> None:
    body = "ft_launcher \\\n  --max-restarts=3 \\\n  train.py"
    launch = launch_of(f'\nsrun bash -c "\n{body}"\n')
    assert launch.value("--max-restarts") == "3"
    assert launch.place.line == 3 and launch.place_of("--max-restarts").line == 4
    launch = launch_of(f"CMD='{body}'\n\n\nsrun bash -c \"$CMD\"\n")
    assert launch.place.line == launch.place_of("--max-restarts").line == 6


def test_the_line_is_the_option_s_own() -> None:
    launch = launch_of("\nsrun bash -c '\nft_launcher \\\n  --max-restarts=3 \\\n  train.py'\n")
    assert launch.place.line == 3 and launch.place_of("--max-restarts").line == 4


def test_characters_beyond_ascii_do_no_harm() -> None:
    """tree-sitter-bash 0.25 crashes the interpreter on some of them."""
    launch = launch_of(
        "# \U0010ffff\nX=z{\U0010ffff\nft_launcher --max-restarts=3 /daten/b\u00fccher/\u8bad\u7ec3.py\n"
    )
    assert launch.script is not None and launch.script.text == "/daten/b\u00fccher/\u8bad\u7ec3.py"
    assert launch.place.line == 3
