# SPDX-License-Identifier: Apache-2.0
"""One launcher a node, all of them at one rendezvous."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..model import HOLE, HOLE_VARIABLE, MISSING, Job, Launch, known, shown
from . import NVRX, Hit, Unsure, Versions, rule


def _text(launch: Launch, name: str, directives_too: bool = True) -> str | None:
    """An option of the step, else the same #SBATCH directive."""
    if launch.step is not None and name in launch.step.options:
        return launch.step.options[name]
    return launch.directives.get(name) if launch.directives and directives_too else None


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() else None


@rule(
    "several-launchers-per-node",
    title="More than one ft_launcher on a node",
    why="ft_launcher starts the ranks of a node itself and refuses to run twice on one.",
    fix="srun --ntasks-per-node=1 around ft_launcher, and --nproc-per-node for the ranks.",
    facts=("nvrx.error.one-launcher-per-node",),
    holds={NVRX: ">=0.6.0"},
)
def several_launchers_per_node(job: Job, versions: Versions) -> Iterator[Hit | Unsure]:
    """The step, or the #SBATCH lines that it inherits, have more than one task a node."""
    for launch in job.ft_launches():
        if launch.environment.get("NVRX_ENABLE_MULTI_LAUNCHERS_PER_NODE") not in (None, "0"):
            continue
        if launch.step is None and launch.directives is None:
            continue
        if launch.step is not None and "..." in launch.step.options:
            continue
        own = launch.step.options if launch.step is not None else {}
        per_node = _number(_text(launch, "ntasks-per-node"))
        if "ntasks" in own and "ntasks-per-node" not in own:
            per_node = None
        if per_node is None:
            tasks, nodes = _number(_text(launch, "ntasks")), _number(_text(launch, "nodes"))
            per_node = -(-tasks // nodes) if tasks and nodes else None
        if per_node is not None and per_node > 1:
            place = launch.step.place if launch.step is not None else launch.place
            yield Hit(
                place,
                f"{per_node} tasks a node, each of which starts ft_launcher",
                "srun --ntasks-per-node=1 ... ft_launcher --nproc-per-node=" + str(per_node),
            )


@rule(
    "launcher-on-one-node-only",
    title="ft_launcher runs on the first node only",
    why="The batch script runs on the first node; without srun no other node starts a launcher and the rendezvous "
    "waits until it gives up.",
    fix="Start it with srun --ntasks-per-node=1.",
    facts=("nvrx.option.nnodes", "slurm.script-on-first-node"),
)
def launcher_on_one_node_only(job: Job, versions: Versions) -> Iterator[Hit | Unsure]:
    """ft_launcher for several nodes stands in a batch script of several nodes without srun around it."""
    for launch in job.ft_launches():
        if launch.step is not None or launch.directives is None:
            continue
        if any(name in launch.wrappers for name in ("mpirun", "mpiexec", "pdsh", "ssh", "clush")) or launch.repeats:
            continue
        nodes, wanted = _number(launch.directives.get("nodes")), launch.nodes()
        if nodes and nodes > 1 and wanted and wanted[0] > 1:
            yield Hit(
                launch.place,
                f"ft_launcher --nnodes={wanted[0]} without srun in a job of {nodes} nodes",
                f"srun --nodes={nodes} --ntasks-per-node=1 --kill-on-bad-exit=0 ft_launcher ...",
                confidence="medium",
            )


@rule(
    "group-rank-fixed",
    title="GROUP_RANK is the same on every node",
    why="Where Slurm gives no process id the launcher takes GROUP_RANK as the node's rank, and equal ranks end the "
    "rendezvous with `Duplicate infrastructure ranks detected`.",
    fix="Unset GROUP_RANK: NVRx 0.6.0 and later number the nodes themselves.",
    facts=("nvrx.error.duplicate-infra-ranks", "nvrx.env.group-rank"),
    holds={NVRX: ">=0.6.0"},
)
def group_rank_fixed(job: Job, versions: Versions) -> Iterator[Hit | Unsure]:
    """GROUP_RANK is exported as a constant to a launch on several nodes outside srun."""
    for launch in job.ft_launches():
        value = launch.environment.get("GROUP_RANK")
        if value is None or not known(value) or not value.isdigit() or launch.step is not None:
            continue
        nodes = launch.nodes()
        if nodes is not None and nodes[1] == 1:
            continue
        count = f"{nodes[0]} nodes" if nodes else "what --nnodes allows to be several nodes"
        yield Hit(
            launch.place,
            f"GROUP_RANK={value} on every one of {count}",
            "unset GROUP_RANK   # or, one number a node: export GROUP_RANK=$NODE_RANK",
            severity="error" if nodes else "warning",
        )


@rule(
    "rendezvous-on-localhost",
    title="Several nodes, and the rendezvous endpoint is the local host",
    why="Every node looks for the store on itself; they never meet.",
    fix="Give all nodes the name of one of them.",
    facts=("nvrx.option.rdzv-endpoint", "nvrx.option.master-addr", "nvrx.behaviour.store-host"),
)
def rendezvous_on_localhost(job: Job, versions: Versions) -> Iterator[Hit | Unsure]:
    """The endpoint, or the default master address where no endpoint is given, is the local host on several nodes."""
    launches = job.ft_launches()
    for launch in launches:
        nodes = launch.nodes()
        if _on_one_node(launch):
            continue
        if _one_host(launch, launches):
            continue
        endpoint, name = launch.value("--rdzv-endpoint"), "--rdzv-endpoint"
        if endpoint is MISSING or endpoint == "":
            endpoint, name = launch.value("--master-addr"), "--master-addr"
        if HOLE in (endpoint, launch.value("--master-addr")) and not _is_local(str(endpoint)):
            continue
        if endpoint is MISSING:
            problem = "no --rdzv-endpoint; the default is 127.0.0.1"
        elif _is_local(str(endpoint)):
            problem = f"{name}={shown(str(endpoint))}"
        else:
            continue
        if nodes is None:
            yield Unsure(launch.place_of(name), "the endpoint is localhost: right only if --nnodes is 1")
            continue
        slurm_head = '"$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n1):29500"'
        head = slurm_head if launch.under_slurm else "$MASTER_ADDR:29500"
        yield Hit(
            launch.place_of(name),
            f"{problem}, with {launch.value('--nnodes')} nodes",
            f"--rdzv-endpoint={head}   # or any node's name that all resolve",
        )


def _on_one_node(launch: Launch) -> bool:
    """True if the launch says that it needs no rendezvous with another node."""
    nodes = launch.nodes()
    return (nodes is not None and nodes[1] == 1) or launch.option("--standalone") is not None


def _one_host(launch: Launch, launches: list[Launch]) -> bool:
    """True if the files start several launchers side by side on one host, as tests of several nodes do."""
    if launch.environment.get("NVRX_ENABLE_MULTI_LAUNCHERS_PER_NODE") not in (None, "0"):
        return True
    return launch.step is None and sum(other.place.file == launch.place.file for other in launches) > 1


def _is_local(endpoint: str) -> bool:
    host = re.sub(r":[^:\]]*$", "", endpoint) if not endpoint.startswith("[") else endpoint.partition("]")[0][1:]
    return host in ("localhost", "0.0.0.0", "::1", "[::1]") or bool(re.fullmatch(r"127\.\d+\.\d+\.\d+", host))


#: Set by a scheduler, a container runtime or the launcher where they are used.
_PROVIDED = re.compile(
    r"(SLURM|PET|PBS|LSB|OMPI|PMIX?|FLUX|KUBERNETES|VC|RAY|NGC|LEPTON|TORCHELASTIC|COBALT)_|(MASTER|HOSTNAME|HOST|POD)|"
    r"(WORLD_SIZE|RANK|NODE_RANK|NNODES|JOB_COMPLETION_INDEX|PATH|HOME|USER|TMPDIR|PWD)$"
)
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})")


@rule(
    "rendezvous-id-empty",
    title="An empty rendezvous id on several nodes",
    why="A launcher with an empty id draws one of its own, so the nodes wait for each other in different rendezvous.",
    fix="Give all nodes one id that is the job's own.",
    facts=("nvrx.behaviour.empty-rdzv-id-is-random", "nvrx.option.rdzv-id"),
)
def rendezvous_id_empty(job: Job, versions: Versions) -> Iterator[Hit | Unsure]:
    """--rdzv-id is there without a value, or with that of a variable that the files set to nothing."""
    for launch in job.ft_launches():
        nodes = launch.nodes()
        if _on_one_node(launch):
            continue
        if launch.value("--rdzv-id") == "":
            source = launch.sources.get("--rdzv-id", "")
            written = source if source.startswith("-") else f"--rdzv-id {source}"
            yield Hit(
                launch.place_of("--rdzv-id"),
                f"{written} is empty, with {shown(str(launch.value('--nnodes')))} nodes",
                f"--rdzv-id={'$SLURM_JOB_ID' if launch.directives else '$JOB_ID   # the same on every node'}",
                severity="error" if nodes else "warning",
            )
        unset = _never_set(job, launch, ("--nnodes", "--rdzv-endpoint", "--rdzv-id"))
        if unset:
            told = ", ".join(f"${name}" for name in unset)
            one = len(unset) == 1
            yield Unsure(
                launch.place,
                f"{told} {'is' if one else 'are'} not set in these files; if {'it' if one else 'one'} is empty the "
                "nodes never meet",
            )


def _never_set(job: Job, launch: Launch, options: tuple[str, ...]) -> list[str]:
    """Variables in the options' values that no given file sets and no scheduler is known to set."""
    names = [a or b for option in options for a, b in _VARIABLE.findall(launch.sources.get(option, ""))]
    return [
        name
        for name in dict.fromkeys(names)
        if not name.isdigit()
        and name != HOLE_VARIABLE
        and not _PROVIDED.match(name)
        and launch.environment.get(name) is None
        and not any(_sets(name, text) for text in job.texts.values())
    ]


def _sets(name: str, text: str) -> bool:
    """True if the text may set the variable: an assignment, a loop, `read`, a key in Python or YAML."""
    assigned, read = rf"\b{name}(\+?=|\]?[\"']?\s*:|[\"']\])", rf"\b(for|read|mapfile|getopts)\b[^\n]*\b{name}\b"
    return re.search(f"{assigned}|{read}", text) is not None


@rule(
    "rendezvous-differs-per-node",
    title="Each node names itself as the rendezvous endpoint",
    why="Inside the step $(hostname) is expanded on every node, so each launcher serves and joins a store of its own.",
    fix="Expand the first node's name once, in the batch script.",
    facts=("nvrx.behaviour.store-host",),
)
def rendezvous_differs_per_node(job: Job, versions: Versions) -> Iterator[Hit | Unsure]:
    """The endpoint holds $(hostname) in a script that srun runs on every node of several."""
    for launch in job.ft_launches():
        nodes = launch.nodes()
        several = nodes is not None and nodes[1] > 1
        nodes_of_job = _number(_text(launch, "nodes"))
        if not launch.per_node or not (several or (nodes_of_job or 0) > 1):
            continue
        option = launch.option("--rdzv-endpoint") or launch.option("--master-addr")
        source = launch.sources.get(option.name, "") if option else ""
        if re.search(r"\$\(\s*hostname\b|`hostname|\$\{?HOSTNAME\b", source):
            yield Hit(
                option.place,  # type: ignore[union-attr]
                f"{source} inside srun is another host on every node",
                'head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n1); export head   # before srun\n'
                "--rdzv-endpoint=$head:29500",
            )


@rule(
    "more-nodes-than-nnodes",
    title="More launchers than --nnodes allows",
    why="A launcher beyond the most that --nnodes allows closes the rendezvous for good and the whole job ends.",
    fix="--nnodes=MIN:MAX with MAX the number of nodes that start a launcher; those above MIN are hot spares.",
    facts=("nvrx.error.max-nodes-exceeded", "nvrx.option.nnodes"),
    holds={NVRX: "<0.7.0"},
)
def more_nodes_than_nnodes(job: Job, versions: Versions) -> Iterator[Hit | Unsure]:
    """The step or job has more nodes than the MAX of --nnodes."""
    for launch in job.ft_launches():
        started, nodes = _started(launch), launch.nodes()
        if started and nodes and started > nodes[1]:
            yield Hit(
                launch.place_of("--nnodes"),
                f"--nnodes={launch.value('--nnodes') if launch.option('--nnodes') else '1:1 (default)'} "
                f"and {started} nodes start a launcher",
                f"--nnodes={nodes[0]}:{started}",
            )


@rule(
    "fewer-nodes-than-nnodes",
    title="Fewer nodes than --nnodes waits for",
    why="The rendezvous waits for launchers that no node starts, and then gives up.",
    fix="Make --nnodes and the number of nodes agree.",
    facts=("nvrx.option.nnodes",),
)
def fewer_nodes_than_nnodes(job: Job, versions: Versions) -> Iterator[Hit | Unsure]:
    """The step or job has fewer nodes than the MIN of --nnodes."""
    for launch in job.ft_launches():
        started, nodes = _started(launch), launch.nodes()
        array = launch.directives.get("array") if launch.directives else None
        if started and nodes and started < nodes[0] and not array:
            yield Hit(
                launch.place_of("--nnodes"),
                f"--nnodes={launch.value('--nnodes')} and {started} node{'s' if started > 1 else ''} to start it",
                f"--nnodes={started}",
            )


def _started(launch: Launch) -> int | None:
    """Nodes on which srun starts a launcher."""
    if launch.step is None or "..." in launch.step.options or HOLE in str(launch.step.options.get("nodes", "")):
        return None
    if "relative" in launch.step.options or "nodelist" in launch.step.options or "het-group" in launch.step.options:
        return None
    nodes = _number(_text(launch, "nodes"))
    tasks = _number(launch.step.options.get("ntasks"))
    return min(nodes, tasks) if nodes and tasks else nodes


@rule(
    "directive-after-command",
    title="#SBATCH lines after the first command",
    why="sbatch stops reading directives at the first command, without a warning: the job runs with defaults.",
    fix="Move the #SBATCH lines to the top of the script.",
    facts=("slurm.directives-end-at-first-command",),
)
def directive_after_command(job: Job, versions: Versions) -> Iterator[Hit | Unsure]:
    """An #SBATCH line of a script that leads to ft_launcher stands below a command."""
    seen = set()
    for launch in job.ft_launches():
        late = launch.directives.late if launch.directives else None
        if late is not None and late not in seen:
            seen.add(late)
            yield Hit(late, "an #SBATCH line below the first command is ignored", "move it above the first command")
