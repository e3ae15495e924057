"""The order of the command line: a target may begin with `-`, options may stand anywhere, unknown ones get a near name."""

import difflib
from typing import Any

from gradcli.errors import BadOption

_STEPS = ("--eps", "--step", "--rel-step", "--epsilon", "--delta", "--stepsize", "--step-size")
_STEP = "write --h for a fixed step; without it gradcli chooses steps itself"


def arranged(argv: list[str], app: Any) -> list[str]:
    """Return the arguments with the command first, then its options, `--`, and everything else as it stood.

    A word that begins with one `-` and is no declared option is an argument (`-x**2`); short options do not cluster.
    """
    if not argv:
        return ["--help"]
    name, rest = argv[0], argv[1:]
    if name in ("-h", "--help"):
        return ["--help"]
    if name in ("--install-completion", "--show-completion"):
        return argv
    if name == "help":
        return arranged([*rest[:1], "--help"], app)
    if name not in app.commands:
        raise BadOption(
            f"there is no command '{name}'",
            do=_near(name, list(app.commands), 0.5) or f"commands: {', '.join(app.commands)}",
        )
    options, arguments = _sorted(name, rest, app.commands[name])
    return [name, *options, "--", *arguments]


def _sorted(name: str, words: list[str], command: Any) -> tuple[list[str], list[str]]:
    takes_value = _declared(command)
    options: list[str] = []
    arguments: list[str] = []
    k = 0
    while k < len(words):
        word = words[k]
        option, equals, _ = word.partition("=")
        k += 1
        if word == "--":
            arguments += words[k:]
            break
        if option in takes_value and (not equals or option.startswith("--")):
            options.append(word)
            if takes_value[option] and not equals:
                if k == len(words):
                    raise BadOption(f"{option} needs a value", do=f"gradcli {name} --help")
                options.append(words[k])
                k += 1
        elif word.startswith("--"):
            do = _STEP if option in _STEPS and "--h" in takes_value else _near(option, list(takes_value), 0.7)
            raise BadOption(f"there is no option '{option}' for {name}", do=do or f"gradcli {name} --help")
        else:
            arguments.append(word)
    return options, arguments


def _declared(command: Any) -> dict[str, bool]:
    """Return the command's options and whether each takes a value."""
    found = {"--help": False, "-h": False}
    for parameter in command.params:
        if getattr(parameter, "param_type_name", "") == "option":
            takes = not (parameter.is_flag or getattr(parameter, "count", False))
            found |= dict.fromkeys([*parameter.opts, *parameter.secondary_opts], takes)
    return found


def _near(word: str, known: list[str], alike: float) -> str | None:
    """Return advice for a word that is like one that is known: `alike` is difflib's measure, from 0 to 1."""
    near = difflib.get_close_matches(word, known, 1, alike) or [k for k in known if k.startswith(word)][:1]
    if near:
        return f"did you mean '{near[0]}'?"
    return None
