"""Scalars that count in no code digest, so that a new one leaves all stored results valid: those of the execution of a
run, and those whose effect is in the rule, the attack or the protocol."""

from dataclasses import dataclass
from typing import Annotated, Any

from robustfl_bench.base.fields import Flag, at_least, between, one_of


@dataclass
class Rewriting:
    """Scalars that change the chosen rule, attack or protocol, as the config of a run then says."""

    weighting: Annotated[
        str,
        one_of(
            none="as the rule does by itself",
            samples="by the samples that they report",
            capped="the same, but f clients have at most a third of all",
        ),
    ]
    """how clients count in the rule"""
    claim_samples: Annotated[float | None, at_least(1)]
    """samples that each attacker reports; null: as many as it has"""
    secure_aggregation: Flag
    """the server learns only a sum over the clients: rules that need more are refused"""
    on_suspicion: Annotated[
        str,
        one_of(keep="nothing", skip="the model stays as it is in that round", stop="the run ends and says why"),
    ]
    """what happens where more than f clients look hostile"""
    topology: str
    """neighbours of a node, with protocol=gossip"""
    init: str | None
    """initial weights: a .safetensors, or the folder of a run that kept its weights; null: drawn by seed"""


@dataclass
class Execution(Rewriting):
    """Scalars of the execution of a run; they change no result."""

    device: str
    """auto, cpu, cuda, cuda:N"""
    num_threads: Annotated[int | None, between(1, 1024)]  # with more, the operating system may end the process
    """results do not depend on it; null: 1 for small problems, else all that the launcher gives this job"""
    processes: Annotated[int, between(1, 1024)]
    """of this machine, or of all machines under torchrun, that train parts of the clients and aggregate parts of the
    updates' columns"""
    data_dir: str | None
    """folder of the data sets; null: $ROBUSTFL_DATA, else the user's cache folder"""
    results_dir: str
    """run folders go to results_dir/runs"""
    checkpoint_seconds: Annotated[float, at_least(0)]
    """least time between checkpoints; an interrupted run resumes from the last one; 0: every round"""
    metrics: Any
    """your own, module:function or a list of them; their numbers are in own_metrics.csv of the run folder"""
    save_weights: Flag
    """keep the trained weights in the run folder: weights.safetensors"""
    use_kept: bool
    """use the results that ship with the package (results/*/*.csv); false: run anyway"""
    retry_failed: bool
    """in a sweep, run failed runs again; false: skip them"""
    wait: bool
    """wait for runs that other processes make; false: skip them (exit code 75)"""
    stack: bool
    """in a sweep on a CPU, train small models on the same data and batches together; false: alone"""
    dry_run: bool
    """count the runs that would be made and estimate their time; make none. -v lists them"""
    origin: str | None
    """set by rerun=FOLDER and reference=FOLDER: which of them, and the folder"""
    allow: Any
    """packages, NAME or [NAME,NAME], whose classes the config of such a folder may use"""
