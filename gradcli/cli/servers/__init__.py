"""Servers for agents and editors, and checks on every save; each loads what its extra installs when it begins."""

import importlib
from types import ModuleType

from gradcli.errors import BadOption, install_command


def with_extra(module: str, extra: str) -> ModuleType:
    """Import a module that needs what an extra installs. Raises BadOption if that is not installed."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] == "gradcli":
            raise
        says = f"the Python package {error.name} is not installed, which this needs"
        raise BadOption(says, do=install_command(extra)) from None
