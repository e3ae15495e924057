"""Read the version of gradcli, which the plugin shares, and require that version of it."""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class SameVersion(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        source = Path(self.root).parent / "gradcli" / "__init__.py"
        if (Path(self.root) / "PKG-INFO").is_file():  # a source distribution, which has both already
            return
        version = re.search(r'^__version__ = "(.*)"$', source.read_text(encoding="utf-8"), re.MULTILINE)
        if version is None:
            raise ValueError(f"{source} has no __version__")
        metadata["version"] = version[1]
        metadata["dependencies"] = [f"gradcli=={version[1]}", "pytest>=8"]
