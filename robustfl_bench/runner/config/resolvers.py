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


BY_ROOT: dict[str, Callable[..., Any]] = {
    # ${at_scale:200,40}: 200 with scale=paper, 40 with scale=quick
    "at_scale": lambda paper, quick, _root_: quick if _root_["scale"] == "quick" else paper,
    # ${in_variant:keep,random}: keep with variant=fair, random with variant=published
    "in_variant": lambda fair, published, _root_: published if _root_["variant"] == "published" else fair,
    # ${attacked:1,10000}: 1 in a run with Byzantine clients, 10000 in one without
    "attacked": lambda attacked, clean, _root_: attacked if is_attacked(_root_) else clean,
    "rb.digest": _digest,
    "rb.rate": _rate,
}
"""Resolvers that read the whole config, passed as ``_root_``."""

PLAIN: dict[str, Callable[..., Any]] = {
    "rb.share": lambda part, whole: round(part * whole),  # ${rb.share:0.25,60}: 15
    "rb.ratio": lambda part, whole: part / whole,  # ${rb.ratio:32,1039}: 32 of 1039 clients
    "rb.times": lambda count, size: count * size,  # ${rb.times:40,${dataset.num_clusters}}: 40 clients for each cluster
    # ${swept_in:arena/digits,attack}: the values that another experiment sweeps
    "swept_in": lambda name, key: str(options.load(f"experiment/{name}")["hydra"]["sweeper"]["params"][key]),
}
"""Resolvers that read only their arguments."""


def unknown(name: str, text: str) -> ConfigError:
    """The error for a resolver that does not exist, in ``${text}``."""
    known = (*BY_ROOT, *PLAIN)
    meant = did_you_mean([f"rb.{name}"]) if f"rb.{name}" in known else near(name, known)
    return ConfigError(f"unknown resolver {name!r} in ${{{text}}}{meant}")
