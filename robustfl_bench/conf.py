"""The folder ``conf/`` as a module, for ``hydra.initialize_config_module("robustfl_bench.conf")``.

In a clone the folder is beside this package; a wheel has it in the place of this file.
"""

import sys
from importlib.util import module_from_spec, spec_from_file_location

from robustfl_bench.runner.config.options import CONF

_found = spec_from_file_location(__name__, CONF / "__init__.py", submodule_search_locations=[str(CONF)])
assert _found is not None and _found.loader is not None
sys.modules[__name__] = module_from_spec(_found)
_found.loader.exec_module(sys.modules[__name__])
