"""`gradcli check DIR/`: the checks of the gradients in a folder, and of those found there whose point is known."""

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path

from gradcli.commands.find import declared_checks
from gradcli.discovery import proposal
from gradcli.discovery.finder import find
from gradcli.errors import BadOption
from gradcli.options import Options
from gradcli.reports.suite import Names
from gradcli.source.targets import is_folder, is_python
from gradcli.suite.config import KEYS, Suite, check_with, find_suite, option_values, refuse_options_of_one


def are_folders(words: Sequence[str]) -> bool:
    """Whether the words of the command line name folders: those that exist, or that end in a slash.

    Raises  BadOption if only some of them do.
    """
    folders = [word for word in words if is_folder(word)]
    if folders and len(folders) < len(words):
        raise BadOption(
            f"{folders[0]} is a folder, and other words are not", do="check folders alone: gradcli check src/"
        )
    return bool(folders)


def suite_of_folders(words: Sequence[str], options: Options) -> Suite:
    """Return the suite with the checks found in the folders that have a point.

    `only` are these, and its own whose gradient, or whose target, lies in the folders.

    The gradients that lack a point are the suite's `without_point`.

    Raises  BadOption.
    """
    refuse_options_of_one(options)
    suite = find_suite(Path.cwd(), options.profile, options) or Suite(None, Path.cwd(), options=options)
    gradients = find(words, declared_checks(suite)).gradients
    only = {name for gradient in gradients for name in gradient.checked_by}
    only |= {check.id for check in suite.checks if _lies_in(check.ask.target, suite.folder, words)}
    checks = [*suite.checks]
    names = Names(check.id for check in checks)
    open_ = [gradient for gradient in gradients if not gradient.checked_by]
    for gradient in filter(proposal.is_live, open_):
        inside = Path(os.path.relpath(gradient.file, suite.folder)).as_posix()
        values = proposal.values(dataclasses.replace(gradient, file=inside))
        given = option_values(values, KEYS, ("target",), gradient.file, lambda key: None)
        checks.append(
            check_with(names.of(gradient.name), str(values["target"]), dataclasses.replace(suite.options, **given))
        )
        only.add(checks[-1].id)
    without = tuple(f"{g.file}:{g.line}  {g.name}" for g in open_ if not proposal.is_live(g))
    return dataclasses.replace(
        suite, checks=tuple(checks), without_point=without, only=frozenset(only), words=tuple(words)
    )


def _lies_in(target: str, folder: Path, words: Sequence[str]) -> bool:
    """Whether the file of a target, which begins at the suite's folder, is in one of the folders."""
    file = target.strip().partition(".py")[0] + ".py"
    if not is_python(target) or not (folder / file).is_file():
        return False
    return any((folder / file).resolve().is_relative_to(Path(word).resolve()) for word in words)
