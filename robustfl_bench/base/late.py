"""NumPy and pandas, each imported when it is first used: help, listings and refusals need neither, and pandas takes
half a second."""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
else:

    class _Late(ModuleType):
        """A module whose attributes are those of the real one, which it imports."""

        def __getattr__(self, name: str) -> Any:
            return getattr(import_module(self.__name__), name)

    np, pd = _Late("numpy"), _Late("pandas")

__all__ = ["np", "pd"]
