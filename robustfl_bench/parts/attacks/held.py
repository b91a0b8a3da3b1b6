"""One entry of the list of ``worst`` at one strength, all through the run (ours)."""

from dataclasses import dataclass
from typing import Annotated

from robustfl_bench.base.fields import at_least, one_of
from robustfl_bench.parts.attacks.base import Attack, AttackView, Crafted
from robustfl_bench.parts.attacks.candidates import ENTRIES, Scene

_NAMED = {entry.name: entry for entry in ENTRIES}


@dataclass(frozen=True)
class Held(Attack):
    """In every round all attackers send the same ``entry`` of ``candidates.ENTRIES`` at the same ``strength``.

    A step that does little harm in one round can do much when it is repeated: rewind pulls the model back to that of
    the first round, drift works against all honest means so far.
    """

    entry: Annotated[str, one_of(*_NAMED)] = "rewind"
    """the entry"""
    strength: Annotated[float, at_least(0)] = 1.0
    """its strength, in the unit of the entry; entries of published attacks ignore it"""

    def craft(self, view: AttackView) -> Crafted:
        scene = Scene(view.of_updates)
        return Crafted(view.upload(_NAMED[self.entry].rows(scene, self.strength)), scene.memory)
