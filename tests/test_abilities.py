"""Abilities are defaults of base classes: a misspelt one fails when the class is made."""

from __future__ import annotations

import importlib
import math
import pkgutil
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Annotated, Any, ClassVar

import pytest
import torch
from torch import Tensor

from robustfl_bench.base.abilities import Ability, Part, overrides, passes_on
from robustfl_bench.doors import testing
from robustfl_bench.interfaces import (
    Aggregator,
    Attack,
    ConfigError,
    Dataset,
    Flag,
    LocalUpdate,
    Number,
    Option,
    Partition,
    ServerView,
    at_least,
    between,
    check_fields,
    one_of,
)
from robustfl_bench.numerics.neighbourhoods import Neighbourhoods
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts import aggregators, attacks
from robustfl_bench.parts.attacks.wrapped import Wrapped
from robustfl_bench.train.parts import GROUPS, Parts


@pytest.mark.parametrize(
    ("base", "body", "message"),
    [
        (
            LocalUpdate,
            {"send_models": True},
            r"Own.send_models is no ability of LocalUpdate; is 'sends_models' meant\?",
        ),
        (Partition, {"by_owners": True}, "is 'by_owner' meant"),
        (Attack, {"need_honest": property(lambda self: False)}, "is 'needs_honest' meant"),
        (Aggregator, {"rings": cached_property(lambda self: None)}, "is 'ring' meant"),
        (Aggregator, {"checks": lambda self, n: None}, "is 'check' meant"),
        (Attack, {"crafted": lambda self, view: view.own}, "no ability of Attack; is 'craft"),
        (Attack, {"reprot": staticmethod(lambda losses, honest: losses)}, "is 'report' meant"),
        (Attack, {"__annotations__": {"present_": "ClassVar[bool]"}, "present_": True}, "is 'present' meant"),
        (Dataset, {"__annotations__": {"conten": ClassVar[str]}, "conten": "words"}, "is 'content' meant"),
    ],
)
def test_a_misspelt_ability_fails_when_the_class_is_made(base: type, body: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        type("Own", (base,), body)


def test_fields_methods_and_declared_attributes_are_a_parts_own() -> None:
    @dataclass(frozen=True)
    class Family(Dataset):
        scale: float = 1.0
        mean: ClassVar[float]
        _cache = 3

        def draw(self) -> None:
            """A method of its own."""

        def load(self, folder: Any) -> Any:
            return folder

    class Member(Family):
        name = "member"
        mean = 0.5

    assert Member(2.0).mean == 0.5 and Member().content == "numbers"
    with pytest.raises(TypeError, match=r"Other\.means is no ability of Dataset; is 'mean' meant"):
        type("Other", (Family,), {"means": 1})


def test_a_part_without_what_its_kind_must_do_cannot_be_made() -> None:
    class Empty(Aggregator):
        pass

    with pytest.raises(TypeError, match="abstract method"):
        Empty()  # type: ignore[abstract]


def classes(package: Any, base: type) -> list[type]:
    modules = [
        importlib.import_module(f"{package.__name__}.{module.name}")
        for module in pkgutil.iter_modules(package.__path__)
    ]
    return [
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, base) and value.__module__ == module.__name__
    ]


def test_attacks_say_whether_they_craft() -> None:
    found = [attack for attack in classes(attacks, Attack) if attack is not Attack and not issubclass(attack, Wrapped)]
    assert len(found) > 15
    crafting = {attack for attack in found if attack.craft is not Attack.craft}  # type: ignore[attr-defined]
    planning = {attack for attack in found if attack.plan is not Attack.plan}  # type: ignore[attr-defined]
    assert crafting <= {attack for attack in found if attack.crafts} <= crafting | planning  # type: ignore[attr-defined]


def test_every_form_of_aggregate_is_checked() -> None:
    forms = {name for name, ability in Aggregator.abilities.items() if ability.form_of == "aggregate"}
    assert forms == {*testing.FORMS, "aggregate_many"} and len(forms) == 5


class Formed(Aggregator):
    """The mean; subclasses have a wrong form of it."""

    exempt = MappingProxyType({"robust": "a test"})

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        return updates.combine(torch.ones_like(updates.counts) / updates.n)


class WrongWeights(Formed):
    def aggregate_weighted(self, updates: Updates, server: ServerView) -> Aggregate:
        return updates.combine(updates.counts / updates.counts.sum() * 1.01)


class WrongNodes(Formed):
    def aggregate_nodes(self, nodes: Neighbourhoods) -> Tensor:
        return nodes.combine(torch.full_like(nodes.weights, 0.3))


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (WrongWeights(), "WrongWeights: weights: equal counts change the aggregate, n=9"),
        (WrongNodes(), "WrongNodes: nodes: aggregate_nodes and aggregate differ, node 0 of 9"),
    ],
)
def test_a_wrong_form_of_a_rule_is_found(rule: Aggregator, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        testing.check_aggregator(rule)


def test_a_class_with_another_aggregate_has_no_form_of_the_old_one() -> None:
    class Other(WrongWeights):
        def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
            return updates.combine(torch.zeros_like(updates.counts))

    class Below(Other):
        """Inherits all."""

    assert overrides(WrongWeights(), "aggregate_weighted") and not overrides(Other(), "aggregate_weighted")
    assert not overrides(Below(), "aggregate_weighted") and overrides(Below(), "aggregate")
    assert not overrides(WrongWeights(), "aggregate_nodes")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"shouts": Ability()}, "Loud.abilities: shouts or what it is a form of is no ability of the class"),
        ({"speak": Ability(form_of="shouts")}, "Loud.abilities: speak or what it is a form of is no ability"),
        ({"speak": Ability(counts="sometimes")}, "Loud.abilities: speak takes used, always, never and forward, own"),
        ({"speak": Ability(wrapper="maybe")}, "Loud.abilities: speak takes used, always, never and forward, own"),
    ],
)
def test_a_table_says_what_can_be_said_of_what_is_there(rows: dict[str, Ability], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        type("Loud", (Part,), {"abilities": rows, "speak": lambda self: None})


def test_a_table_has_a_row_for_each_ability_and_a_part_has_none_of_its_own() -> None:
    assert Attack.abilities["claim"] == Ability(default=Attack.claim)
    assert Aggregator.abilities["ring"] == Ability("always", "own", "aggregate", None)
    assert {"depends_on", "whole_matrices"} <= Partition.abilities.keys() & Attack.abilities.keys()
    with pytest.raises(TypeError, match=r"Own.abilities: what is said of abilities stands in the table of Attack"):
        type("Own", (Attack,), {"abilities": {}})


def test_a_wrapper_must_define_what_cannot_be_passed_on() -> None:
    with pytest.raises(TypeError, match="Plain must define plan, around that of its attack"):
        passes_on("attack")(type("Plain", (Attack,), {}))


def test_every_rule_is_an_aggregator_and_every_group_a_field() -> None:
    assert len(classes(aggregators, Aggregator)) > 20
    assert tuple(Parts.__dataclass_fields__) == GROUPS and "server_optimizer" in GROUPS


@dataclass
class Checked:
    whole: int = 1
    maybe: int | None = None
    real: float = 0.5

    def __post_init__(self) -> None:
        check_fields(self, whole=(0, 9), maybe=(0, 9), real=(0, math.inf))


class Inherits(Checked):
    """Has the fields of its base."""


@pytest.mark.parametrize("made", [Checked, Inherits])
@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"whole": 2.5}, "whole must be a whole number, got 2.5"),
        ({"whole": True}, "whole must be a whole number, got True"),
        ({"whole": None}, "whole must be a whole number, got None"),
        ({"maybe": 2.5}, "maybe must be a whole number or null, got 2.5"),
        ({"real": "1"}, "real must be a number, got '1'"),
        ({"whole": 10}, r"whole must be in \[0, 9\], got 10"),
    ],
)
def test_fields_are_checked_where_annotations_are_strings(made: type, fields: dict[str, Any], message: str) -> None:
    assert isinstance(Checked.__annotations__["whole"], str), "this module postpones its annotations"
    with pytest.raises(ConfigError, match=message):
        made(**fields)
    made(whole=3, maybe=None, real=2)


NORMS = {"l1": "", "l2": "Euclidean"}


@dataclass(frozen=True)
class Described(Partition):
    whole: Annotated[int | None, at_least(1)] = 1
    share: Annotated[float, between(0, 0.5)] = 0.5
    inside: Annotated[float, Option(0, math.inf, "()")] = 1
    any: Number = -3
    word: Annotated[str | None, one_of("mean", lower="as in torch", null="neither")] = "mean"
    norm: Annotated[str, one_of(**NORMS)] = "l2"
    flag: Flag = True
    widths: Annotated[tuple[int, ...], at_least(1)] = (2, 3)
    plain: int = 0

    def __post_init__(self) -> None:
        if self.share * 2 > self.inside:
            raise ConfigError("share must be at most half of inside")

    def __call__(self, labels: Any, num_clients: int, rng: Any) -> list[Any]:
        return []


@dataclass(frozen=True)
class Narrower(Described):
    """Replaces the range of one field and adds one; its own check does not call that of its base."""

    whole: Annotated[int, between(1, 3)] = 1
    more: Annotated[int, at_least(5)] = 5

    def __post_init__(self) -> None:
        """Checks nothing."""


@pytest.mark.parametrize("made", [Described, Narrower])
@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"whole": 2.5}, "whole must be a whole number"),
        ({"whole": True}, "whole must be a whole number"),
        ({"whole": 0}, "whole must be (>= 1|in .1, 3.), got 0"),
        ({"share": "0.1"}, "share must be a number, got '0.1'"),
        ({"share": 0.6}, r"share must be in \[0, 0.5\], got 0.6"),
        ({"share": math.nan}, "share must be in"),
        ({"inside": 0}, "inside must be > 0, got 0"),
        ({"inside": math.inf}, "inside must be a finite number > 0, got inf"),
        ({"any": None}, "any must be a number, got None"),
        ({"word": "null"}, "word must be one of mean, lower, got 'null'"),
        ({"norm": None}, "norm must be one of l1, l2, got None"),
        ({"flag": 1}, "flag must be true or false, got 1"),
        ({"widths": (2, 0)}, r"widths must be a list of whole numbers >= 1, got \[2, 0\]"),
        ({"widths": "23"}, "widths must be a list of whole numbers >= 1, got '23'"),
    ],
)
def test_the_options_of_fields_are_checked_before_the_parts_own_check(
    made: type, fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        made(**fields)
    made(share=0, word=None, widths=[], plain="of any type")


def test_a_parts_own_check_follows_and_a_class_may_change_the_range_of_its_base() -> None:
    with pytest.raises(ConfigError, match="at most half of inside"):
        Described(inside=0.5)
    assert Described(whole=None).whole is None and Narrower(inside=0.5).whole == 1
    with pytest.raises(ConfigError, match="whole must be a whole number, got None"):
        Narrower(whole=None)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="more must be >= 5, got 4"):
        Narrower(more=4)
