"""The resolvers ``${name:...}`` of conf/.

OmegaConf has one table of resolvers for a whole program, so names that others use too begin with ``rb.``.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from robustfl_bench.base.errors import ConfigError, did_you_mean, near
from robustfl_bench.base.regular import digest_of
from robustfl_bench.runner.config import options

NO_ATTACK = "robustfl_bench.attacks.NoAttack"


def is_attacked(config: Mapping[str, Any]) -> bool:
    """Whether a run has Byzantine clients."""
    attack = config.get("attack") or {}
    return config.get("num_byzantine") != 0 and attack.get("_target_") != NO_ATTACK


def _at_scale(paper: Any, quick: Any, *, _root_: Mapping[str, Any]) -> Any:
    """``${at_scale:200,40}``: 200 with scale=paper, 40 with scale=quick."""
    return quick if _root_["scale"] == "quick" else paper


def _in_variant(fair: Any, published: Any, *, _root_: Mapping[str, Any]) -> Any:
    """``${in_variant:keep,random}``: keep with variant=fair, random with variant=published."""
    return published if _root_["variant"] == "published" else fair


def _attacked(attacked: Any, clean: Any, *, _root_: Mapping[str, Any]) -> Any:
    """``${attacked:1,10000}``: 1 in a run with Byzantine clients, 10000 in one without."""
    return attacked if is_attacked(_root_) else clean


def _digest(key: str, *, _root_: Mapping[str, Any]) -> str | None:
    """``${rb.digest:partition.path}``: the SHA-256 of the file, or folder, at this setting's path; null if it cannot be
    read."""
    value: Any = _root_
    try:
        for name in key.split("."):
            value = value[name]
    except (KeyError, TypeError):
        raise ConfigError(f"no setting {key!r}, the file of which is asked for") from None
    return digest_of(Path(value).expanduser()) if isinstance(value, str) else None


def _rate(kind: str, *, _root_: Mapping[str, Any]) -> Any:
    """``${rb.rate:krum}``: the rate that the setting of a paper gives to its methods of this name."""
    rates = _root_["rates"]
    if not isinstance(rates, Mapping) or kind not in rates:
        papers = {
            name.partition("/")[0]
            for name in options.names("setting")
            if kind in (options.load(f"setting/{name}").get("rates") or {})
        }
        named = " or ".join(f"+setting={paper}/..." for paper in sorted(papers))
        raise ConfigError(f"this method takes its rate from a setting of its paper: add {named or '+setting=...'}")
    return rates[kind]


def _share(part: float, whole: int) -> int:
    """``${rb.share:0.25,60}``: 15."""
    return round(part * whole)


def _ratio(part: float, whole: float) -> float:
    """``${rb.ratio:32,1039}``: 32 of 1039 clients."""
    return part / whole


def _times(count: int, size: int) -> int:
    """``${rb.times:40,${dataset.num_clusters}}``: 40 clients for each cluster."""
    return count * size


def _swept_in(experiment: str, key: str) -> str:
    """``${swept_in:arena/digits,attack}``: the values that another experiment sweeps."""
    return str(options.load(f"experiment/{experiment}")["hydra"]["sweeper"]["params"][key])


BY_ROOT: dict[str, Callable[..., Any]] = {
    "at_scale": _at_scale,
    "in_variant": _in_variant,
    "attacked": _attacked,
    "rb.digest": _digest,
    "rb.rate": _rate,
}
"""Resolvers that read the whole config, passed as ``_root_``."""

PLAIN: dict[str, Callable[..., Any]] = {
    "rb.share": _share,
    "rb.ratio": _ratio,
    "rb.times": _times,
    "swept_in": _swept_in,
}
"""Resolvers that read only their arguments."""


def unknown(name: str, text: str) -> ConfigError:
    """The error for a resolver that does not exist, in ``${text}``."""
    known = (*BY_ROOT, *PLAIN)
    meant = did_you_mean([f"rb.{name}"]) if f"rb.{name}" in known else near(name, known)
    return ConfigError(f"unknown resolver {name!r} in ${{{text}}}{meant}")
