"""Kill the workers of a sweep while they train, and compare its bytes with an undisturbed one.

    python scripts/checks/chaos_sweep.py [--kills 20] [--seeds 15]

Two workers make 2 x seeds runs, with SIGKILLs at random moments at which the process that is killed has trained for
some rounds. Exit code 0: all bytes equal, less than 5% of the rounds made twice, nothing left behind, and no run begun
again after its first checkpoint.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from filelock import SoftFileLease

from robustfl_bench.runner.store.lease import NAME

ROUNDS = 250
RUN = (
    "-m", f"rounds={ROUNDS}", "num_clients=10", "num_byzantine=2", "partition=iid", "model.hidden=[32]",
    "batch_size=16", "attack=ipm", "aggregator=geomed,coomed", "checkpoint_seconds=0",
)  # fmt: skip


def rows(folder: Path) -> int:
    """The rounds that a run has recorded."""
    path = folder / "metrics.csv"
    return max(path.read_bytes().count(b"\n") - 1, 0) if path.exists() else 0


def main() -> int:
    """Run both sweeps; returns an exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=15)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = [sys.executable, "-m", "robustfl_bench", *RUN, f"seed=range({arguments.seeds})"]
        subprocess.run([*command, f"results_dir={folder}/whole"], check=True, stdout=subprocess.DEVNULL)
        kills, lost, errors = disturbed(command, folder / "cut", arguments.kills)
        runs = sorted(path.name for path in (folder / "whole" / "runs").iterdir())
        files = [f"runs/{run}/{file}" for run in runs for file in ("config.yaml", "metrics.csv")]
        whole, cut = ({file: (folder / each / file).read_bytes() for file in files} for each in ("whole", "cut"))
        different = [file for file in files if whole[file] != cut[file]]
        left = [path.name for path in (folder / "cut").rglob("*") if path.name.startswith((".", "checkpoint"))]
        share = lost / (ROUNDS * len(runs))
        print(
            f"{len(runs)} runs, {kills} SIGKILLs: {len(different)} files differ, left behind: {left}, "
            f"{share:.1%} of the rounds made twice, {errors.count('starts again')} runs begun again"
        )
        return int(bool(different or left or share >= 0.05 or "starts again" in errors or kills < arguments.kills))


def disturbed(command: list[str], results: Path, wanted: int) -> tuple[int, int, str]:
    """A sweep whose workers are killed: the number of kills, the rounds that were lost, and what it said."""
    workers = ("hydra/launcher=processes", "hydra.launcher.n_jobs=2")
    errors = results.with_suffix(".txt")
    rng, killed, lost, since = random.Random(0), set[int](), 0, dict[int, int]()
    with errors.open("w") as said:
        sweep = subprocess.Popen([*command, f"results_dir={results}", *workers], stdout=subprocess.DEVNULL, stderr=said)
        while sweep.poll() is None:
            time.sleep(rng.uniform(0.02, 0.1))
            for path in results.glob(f"runs/*/{NAME}"):
                owner = SoftFileLease(path).owner
                if owner is None or owner.pid in killed or len(killed) == wanted:
                    continue
                done = rows(path.parent)
                if done - since.setdefault(owner.pid, done) > rng.randrange(5, 30):
                    os.kill(owner.pid, signal.SIGKILL)
                    killed.add(owner.pid)
                    lost += max(rows(path.parent) - resumed_from(path.parent), 0)
    return len(killed), lost, errors.read_text()


def resumed_from(folder: Path) -> int:
    """The round of the checkpoint of a run; 0 without one."""
    from robustfl_bench.runner.store import sealed

    saved = sealed.load(folder / "checkpoint.pt", {})
    return saved["state"]["round"] if saved else 0


if __name__ == "__main__":
    sys.exit(main())
