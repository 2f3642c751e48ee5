# SPDX-License-Identifier: Apache-2.0
"""Any input ends in an answer or a clear message: never a traceback, never "healthy" for nothing."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mbridge_resiliency.cli import InputError
from mbridge_resiliency.logs import examine
from mbridge_resiliency.logs.reading import BLOCK_BYTES, LONGEST_LINE_BYTES
from mbridge_resiliency.logs.scan import MOST_OF_A_KIND
from mbridge_resiliency.logs.signatures import SIGNATURES
from mbridge_resiliency.logs.verdict import Verdict

CASES = Path(__file__).parent / "cases"
COMMAND = Path(__file__).parents[2] / "scripts" / "check_logs.py"


def _log(case: str) -> bytes:
    (path,) = (p for p in (CASES / case).iterdir() if p.name != "expect.yaml")
    data = path.read_bytes()
    return gzip.decompress(data) if path.suffix == ".gz" else data


def _run(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    done = subprocess.run([sys.executable, str(COMMAND), *arguments], input=stdin, capture_output=True, timeout=120)
    assert b"Traceback" not in done.stderr
    return done


def test_what_is_pasted_is_quoted(tmp_path: Path) -> None:
    log = _log("drill-stale-ft-state").replace(b"/checkpoints/run/ft_state.json", b"/my run; date/ft_state.json")
    (tmp_path / "job.log").write_bytes(log)
    action = examine([tmp_path]).to_dict()["verdict"]["action"]
    assert action["command"] == "mv '/my run; date/ft_state.json' '/my run; date/ft_state.json.old'"


def test_the_help_and_the_answer_name_exit_code_3_alike() -> None:
    assert b"3 nothing recognised" in b" ".join(_run("--help").stdout.split())
    assert b"Nothing recognised" in _run("-").stdout


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b"\0" * 5000,
        bytes(range(256)) * 50,
        "\ufeffFT".encode("utf-16"),
        b"\xff\xfe\xfd" * 1000,
        b"word " * 200_000,
    ],
    ids=["empty", "newline", "nul", "every-byte", "utf-16", "bad-utf-8", "one-long-line"],
)
def test_what_says_nothing_is_exit_3(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "job.log"
    path.write_bytes(content)
    done = _run(str(path))
    assert done.returncode == 3
    assert b"Nothing recognised" in done.stdout
    assert json.loads(_run(str(path), "--format", "json").stdout)["recognised"] is False


def test_a_line_of_100_mb(tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    with path.open("wb") as handle:
        for _ in range(100):
            handle.write(b"x" * 1_000_000)
        handle.write(b"\n" + _log("hang-step"))
    report = examine([path])
    assert report.verdict is not None and report.verdict.cause is not None
    assert report.verdict.cause.id == "hang-in-section"
    original = examine([CASES / "hang-step"]).verdict
    assert original is not None and original.cause is not None
    assert report.verdict.cause.event.line == original.cause.event.line + 1


def test_a_line_that_is_cut_still_counts_once(tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    path.write_bytes(b"y" * (LONGEST_LINE_BYTES * 6) + b"\n" + _log("rank-killed"))
    report = examine([path])
    assert report.verdict is not None and report.verdict.cause is not None and report.verdict.cause.rank == 1


@pytest.mark.parametrize(
    ("name", "words"),
    [("absent.log", b"no such file"), ("closed.log", b"permission denied"), ("socket", b"not a regular file")],
)
def test_what_cannot_be_read_is_exit_2(tmp_path: Path, name: str, words: bytes) -> None:
    path = tmp_path / name
    if name == "closed.log":
        if os.geteuid() == 0:
            pytest.skip("root reads everything")
        path.write_bytes(b"x")
        path.chmod(0)
    if name == "socket":
        import socket

        os.chdir(tmp_path)
        server = socket.socket(socket.AF_UNIX)
        server.bind(name)
    done = _run(str(path))
    assert done.returncode == 2
    assert words in done.stderr and done.stdout == b""


def test_a_folder_that_links_to_itself(tmp_path: Path) -> None:
    (tmp_path / "job.log").write_bytes(_log("healthy"))
    (tmp_path / "again").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "same.log").symlink_to(tmp_path / "job.log")
    (tmp_path / "broken.log").symlink_to(tmp_path / "nothing")
    report = examine([tmp_path, tmp_path / "job.log"])
    assert len(report.files) == 1
    assert report.exit_code == 0
    assert any("broken.log" in note for note in report.notes)


def test_checkpoints_in_the_folder_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "job.log").write_bytes(_log("healthy"))
    (tmp_path / "iter_0000010").mkdir()
    (tmp_path / "iter_0000010" / "__0_0.distcp").write_bytes(b"FT: initializing...\n" * 10)
    (tmp_path / "weights").write_bytes(b"\0\1\2" * 1000)
    report = examine([tmp_path])
    assert [Path(name).name for name in report.files] == ["job.log"]
    assert any("weights" in note and "binary" in note for note in report.notes)


def test_a_truncated_gzip_yields_what_it_holds(tmp_path: Path) -> None:
    path = tmp_path / "job.log.gz"
    packed = gzip.compress(_log("hang-step") + os.urandom(200_000))
    path.write_bytes(packed[: len(packed) // 2])
    report = examine([path])
    assert report.verdict is not None and report.verdict.cause is not None
    assert report.verdict.cause.id == "hang-in-section"
    assert any("damaged gzip" in note for note in report.notes)


def test_standard_input(tmp_path: Path) -> None:
    done = _run("-", "--format", "json", stdin=_log("rank-exception"))
    assert done.returncode == 1
    assert json.loads(done.stdout)["verdict"]["cause"]["rank"] == 1


def test_a_log_that_is_cut_off_anywhere_never_looks_finished(tmp_path: Path) -> None:
    """A healthy log, cut at every tenth line before its end: cut off, with the iterations up to there."""
    lines = _log("healthy").splitlines(keepends=True)
    end = next(n for n, line in enumerate(lines) if b"after training is done" in line)
    path = tmp_path / "job.log"
    for cut in range(10, end, 10):
        path.write_bytes(b"".join(lines[:cut]))
        report = examine([path])
        if report.verdict is not None:
            assert report.verdict.outcome == "cut_off", cut
            assert report.exit_code == 1


@pytest.mark.parametrize(
    "prefix", [b"0: ", b" 3: ", b"[default0]:", b"(TrainWorker pid=9, ip=192.0.2.7) ", b"2026-12-01T12:00:00Z "]
)
@pytest.mark.parametrize("case", ["hang-step", "rank-killed", "rank-exception", "healthy"])
def test_a_prefix_on_every_line_changes_nothing(tmp_path: Path, prefix: bytes, case: str) -> None:
    path = tmp_path / "job.log"
    path.write_bytes(b"".join(prefix + line for line in _log(case).splitlines(keepends=True)))
    with_prefix, without = examine([path]).to_dict()["verdict"], examine([CASES / case]).to_dict()["verdict"]
    for key in ("outcome", "last_iteration", "last_saved_iteration", "resumed_from", "lost_iterations", "train_iters"):
        assert with_prefix[key] == without[key]
    if without["cause"]:
        for key in ("id", "section", "victims"):
            assert with_prefix["cause"][key] == without["cause"][key]
        if not prefix.startswith(b"[default"):  # it names a local rank for every line
            assert with_prefix["cause"]["rank"] == without["cause"]["rank"]


def test_windows_line_ends_and_blank_trimming(tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    path.write_bytes(b"\r\n".join(line.strip() for line in _log("hang-step").splitlines()))
    verdict = examine([path]).to_dict()["verdict"]
    assert verdict["cause"]["id"] == "hang-in-section" and verdict["resumed_from"] == 10


def test_a_flood_of_one_kind_is_bounded_and_said(tmp_path: Path) -> None:
    """The first and the last of a kind count; how many were left out is told."""
    path = tmp_path / "job.log"
    saves = MOST_OF_A_KIND + 500
    path.write_text(
        "".join(f"  successfully saved checkpoint from iteration {n:7d} to /c [ t 1/1, p 1/1 ]\n" for n in range(saves))
    )
    report = examine([path])
    assert report.verdict is not None and report.verdict.last_saved_iteration == saves - 1
    assert any("500 further lines" in note for note in report.notes)
    assert len(report.to_text().splitlines()) < 70


def _other_numbers(line: bytes, digits: bytes) -> bytes:
    """The line with each of its numbers replaced."""
    return re.sub(rb"[0-9]+", digits, line)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lines=st.lists(
        st.one_of(
            st.binary(max_size=200),
            st.sampled_from([re.sub(r"\$?\{\w+\}", "7", s.text).encode() for s in SIGNATURES]),
            st.sampled_from([re.sub(r"\$?\{\w+\}", "x", s.text).encode() for s in SIGNATURES]),
            st.sampled_from(_log("hang-step").splitlines()),
            st.sampled_from(_log("rank-exited-zero").splitlines()),
            st.builds(
                _other_numbers,
                st.sampled_from(_log("hang-step").splitlines()),
                st.sampled_from([b"0", b"1", b"9999", b"99999999999999999999999", b"1.2.3", b"."]),
            ),
        ),
        max_size=40,
    )
)
def test_no_mixture_of_lines_breaks_it(tmp_path: Path, lines: list[bytes]) -> None:
    folder = tmp_path / "fuzz"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    half = len(lines) // 2
    (folder / "a.log").write_bytes(b"\n".join(lines[:half]))
    (folder / "b.log").write_bytes(b"\n".join(lines[half:]))
    report = examine([folder])
    assert report.exit_code in (0, 1, 3)
    report.to_json()
    report.to_text()


def test_the_message_names_the_path(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="absent"):
        examine([tmp_path / "absent"])


def test_a_traceback_over_the_end_of_a_block_is_whole(tmp_path: Path) -> None:
    log = _log("rank-exception")
    inside = log.index(b"[rank1]: Traceback") + 100
    filler = b"z" * 99 + b"\n"
    path = tmp_path / "job.log"
    path.write_bytes(filler * ((BLOCK_BYTES - inside) // len(filler)) + log + filler * 50_000)
    verdict = examine([path]).verdict
    assert verdict is not None and verdict.cause is not None
    assert verdict.cause.id == "rank-exception" and "injected failure" in verdict.cause.why


def test_a_named_pipe_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "job.log")
    done = _run(str(tmp_path / "job.log"))
    assert done.returncode == 2 and b"named pipe" in done.stderr


def _verdict(tmp_path: Path, data: bytes) -> Verdict:
    path = tmp_path / "job.log"
    path.write_bytes(data)
    verdict = examine([path]).verdict
    assert verdict is not None
    return verdict


def _without(case: str, *words: bytes) -> bytes:
    return b"".join(line for line in _log(case).splitlines(True) if not any(word in line for word in words))


@pytest.mark.parametrize("stamp", ["2026-12-01T10:00:{:02d}.123456Z ", "2026-12-01 10:00:{:02d},123 "])
@pytest.mark.parametrize("case", ["rank-exception", "calc-timeouts-without-sections", "rank-exited-zero"])
def test_a_time_on_every_line_keeps_tracebacks_whole(tmp_path: Path, case: str, stamp: str) -> None:
    lines = _log(case).splitlines(True)
    stamped = b"".join(stamp.format(number % 60).encode() + line for number, line in enumerate(lines))
    told, original = _verdict(tmp_path, stamped).cause, examine([CASES / case]).verdict
    assert told is not None and original is not None and original.cause is not None
    assert (told.id, told.rank) == (original.cause.id, original.cause.rank)


def test_colours_do_not_reach_the_command_to_paste(tmp_path: Path) -> None:
    coloured = b"".join(b"\x1b[31m" + line + b"\x1b[0m\n" for line in _log("slurm-node-lost").splitlines())
    assert _verdict(tmp_path, coloured).action.exclude_nodes == ("node2",)


def test_an_exception_in_a_thread_ends_no_rank(tmp_path: Path) -> None:
    thread = (
        b'Exception in thread Thread-3:\nTraceback (most recent call last):\n  File "x.py", line 1\nValueError: x\n'
    )
    lines = _log("rank-exited-zero").splitlines(True)
    last = max(number for number, line in enumerate(lines) if b"iteration       13/" in line)
    cause = _verdict(tmp_path, b"".join([*lines[: last + 1], thread, *lines[last + 1 :]])).cause
    assert cause is not None and (cause.id, cause.rank) == ("rank-exited-zero", 1)


@pytest.mark.parametrize(
    "words", [(), (b"Starting training loop",), (b"Starting training loop", b"loading", b"loaded")]
)
def test_a_silent_start_from_iteration_0_is_shouted(tmp_path: Path, words: tuple[bytes, ...]) -> None:
    verdict = _verdict(tmp_path, _without("hang-from-scratch", *words))
    assert verdict.restarted_from_scratch and verdict.resumed_from == 0 and verdict.lost_iterations == 13
    assert "checkpoint.load" in verdict.action.first


def test_a_silent_start_from_iteration_0_is_shouted_with_a_log_interval(tmp_path: Path) -> None:
    """No line tells where the restart began, and its first iteration in the log, 5, was saved before."""
    between = (f"iteration {number:8d}/".encode() for number in range(1, 31) if number % 5)
    first, started, second = _without("hang-from-scratch", *between).partition(b"Event: worker_start_started Node")
    second, started_again, third = second.partition(b"Event: worker_start_started Node")
    third = b"".join(line for line in third.splitlines(True) if b"Starting" not in line and b"load" not in line)
    assert started_again and b"Starting training loop at iteration 0" in second
    assert _verdict(tmp_path, first + started + second + started_again + third).restarted_from_scratch


def test_a_new_run_from_iteration_0_after_an_orderly_stop_is_shouted(tmp_path: Path) -> None:
    (tmp_path / "job.log").write_bytes(_log("exit-duration") + _log("drill-healthy"))
    report = examine([tmp_path / "job.log"])
    assert report.exit_code == 1 and "ITERATION 0" in report.to_text()


def test_torchrun_and_then_a_new_run_are_two_runs(tmp_path: Path) -> None:
    verdict = _verdict(tmp_path, _log("torchrun-killed") + _log("drill-healthy"))
    assert verdict.requeues == 1 and verdict.recovered and verdict.restarted_from_scratch


def test_where_a_restart_began_is_not_guessed(tmp_path: Path) -> None:
    verdict = _verdict(tmp_path, _without("drill-killed", b"Starting training loop", b"loaded", b"loading"))
    assert (verdict.resumed_from, verdict.lost_iterations) == (None, None) and not verdict.restarted_from_scratch


def test_code_0_alone_is_not_finished(tmp_path: Path) -> None:
    verdict = _verdict(tmp_path, _without("checkpoint-missing-exit", b"no valid checkpoint", b"exiting", b"--exit"))
    assert verdict.outcome != "finished"


def test_clocks_that_contradict_each_other_measure_nothing(tmp_path: Path) -> None:
    """The node that went on has a clock that is six minutes behind."""
    (tmp_path / "job.log").write_bytes(
        _log("preempted-requeued-finished").replace(b"[2026-12-01 12:16:", b"[2026-12-01 12:10:")
    )
    report = examine([tmp_path])
    (incident,) = report.to_dict()["incidents"]
    assert incident["seconds"]["to_resume"] is None and incident["seconds"]["to_restart"] > 0
    assert "training again" not in report.to_text() and "recovered" in report.to_text()


@pytest.mark.parametrize(
    "names, node",
    [
        (("node1.cluster_7133_0", "node2.cluster_7134_0"), "node2"),
        (("node1_7133_0", "node2_7134_0"), "node2"),
        (("node1_7133_0", "node1_7134_0"), None),
        (("node1_7133_0", "localhost_7134_0"), None),
    ],
)
def test_the_lost_node_has_the_name_of_its_launcher(tmp_path: Path, names: tuple[str, str], node: str | None) -> None:
    """Containers of one host name: only the rendezvous tells the nodes apart."""
    for path in (CASES / "node-lost-with-the-store").glob("node*"):
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        for old, new in zip((b"localhost_7133_0", b"localhost_7134_0"), names):
            data = data.replace(old, new.encode())
        (tmp_path / path.name.removesuffix(".gz")).write_bytes(data)
    verdict = examine([tmp_path]).verdict
    assert verdict is not None and verdict.cause is not None
    assert (verdict.cause.id, verdict.cause.node) == ("node-lost", node)
    assert verdict.action.exclude_nodes == ((node,) if node else ())


def test_of_several_nodes_the_one_with_the_wrong_result_is_left_out(tmp_path: Path) -> None:
    """Every rank exits with 16: the node whose launcher tells of it first is not the one at fault."""
    log = _log("rerun-exit-16").replace(b"in a world of size 1", b"in a world of size 2")
    verdict = _verdict(tmp_path, log)
    assert verdict.cause is not None and verdict.cause.id == "rerun-exit-16"
    assert (verdict.cause.rank, verdict.cause.node, verdict.action.exclude_nodes) == (None, None, ())
    told = b"Unexpected result nan on rank 3 at iteration #11 invocation #1 (message='the loss is NaN')"
    cause = _verdict(tmp_path, log.replace(b"E1201", told + b"\nE1201")).cause
    assert cause is not None and (cause.id, cause.rank, cause.node) == ("rerun-exit-16", 3, "node1")
