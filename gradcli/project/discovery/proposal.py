"""The suite that `gradcli init` proposes for what was found, and the workflow that runs it, as texts."""

import ast
import json
import keyword
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath

from gradcli.project.discovery.likely_points import SIZES, likely_points, outline_point
from gradcli.project.discovery.project import HandGradient
from gradcli.request.target_text import GRADIENT_METHODS, LOSSES

CUSTOM = ("torch", "jax", "tensorflow", "mlx")
_KEYS = ("grad", "jac", "hess", "hvp", "jvp", "vjp")


_LONGEST = 100  # characters of a reason
Keys = Mapping[str, str | bool]  # of a check in a suite


def suite_text(
    gradients: Sequence[HandGradient],
    paths: Iterable[str],
    table: str = "tool.gradcli",
    run: Mapping[int, Keys] = {},
    reasons: Mapping[int, str] = {},
) -> str:
    """Return the text of a suite: the checks of the gradients below the paths that are read.

    `table` is the table that it is written for: `tool.gradcli` in pyproject.toml, empty in gradcli.toml.
    """
    head = f"[{table}]\n" if table else ""
    head += f"paths = [{', '.join(map(quote_for_toml, paths))}]"
    return "\n\n".join([head, *check_texts(gradients, table, run, reasons)]) + "\n"


_TO_FILL_IN = "# Checks in comments lack something: fill in what is marked with ?, then remove the leading #."


def check_texts(
    gradients: Sequence[HandGradient],
    table: str,
    run: Mapping[int, Keys] = {},
    reasons: Mapping[int, str] = {},
    names: Sequence[str] | None = None,
) -> list[str]:
    """Return the texts of a check for each gradient, as comments where it lacks something, after one that says so.

    By the number of a gradient, `run` has the keys of a check that was tried and runs, and `reasons` why none did; `names` has
    its id.
    """
    of_check = f"{table}.check" if table else "check"
    lacking = any(not is_complete_check(gradient) and k not in run for k, gradient in enumerate(gradients))
    parts = [_TO_FILL_IN] if lacking else []
    for k, (gradient, id) in enumerate(zip(gradients, names or check_ids(gradients), strict=True)):
        reason, said = reasons.get(k, ""), describe_left_out(gradient)
        if k in run:
            parts.append((f"# It {said}.\n" if said else "") + check_lines(run[k], id, of_check))
        elif is_complete_check(gradient):
            parts.append(check_lines(keys_of_check(gradient), id, of_check))
        else:
            why = [f"Tried, and not run: {reason.splitlines()[0][:_LONGEST]}"] if reason else []
            lines = check_lines(_keys_with_object(gradient), id, of_check).splitlines()
            lines = [*_note_on_naming(gradient, reason), *why, *lines, *_point_line(gradient, reason)]
            parts.append("\n".join(f"# {line}" for line in lines))
    return parts


def describe_left_out(gradient: HandGradient) -> str:
    """Say which arrays a check of a custom gradient leaves out, those that its backward pass returns None for, if any."""
    if gradient.found_by not in CUSTOM or not gradient.wrt:
        return ""
    by = gradient.wrt.split(",")
    names = [p.name for p in gradient.parameters if p.kind in ("", "array") and not p.default and p.name not in by]
    return f"leaves out {' and '.join(names)}, for which backward returns None; without wrt it is checked, too"


def commented_ids(text: str) -> frozenset[str]:
    """Return the ids of the checks that stand as comments in the text of a suite."""
    found = re.findall(r"^#\s*\[\[(?:tool\.gradcli\.)?check\]\]\s*\n#\s*id = (\".*\")\s*$", text, re.MULTILINE)
    return frozenset(json.loads(each) for each in found)


def check_ids(gradients: Sequence[HandGradient]) -> tuple[str, ...]:
    """Return an id for each gradient: its name; after the module's where others have it, too, and numbered where these do."""
    names = [gradient.name for gradient in gradients]
    stems = [PurePosixPath(gradient.file).stem for gradient in gradients]
    longer = [n if names.count(n) == 1 else f"{stem}.{n}" for n, stem in zip(names, stems, strict=True)]
    return tuple(n if longer.count(n) == 1 else f"{n}#{longer[:k].count(n) + 1}" for k, n in enumerate(longer))


def is_complete_check(gradient: HandGradient) -> bool:
    """Whether the check can be made as it is: the gradient can be named, and its point is known."""
    known = bool(gradient.parameters) and all(type(_parse_number(p.default)) is float for p in gradient.parameters)
    return gradient.reachable and gradient.found_by not in CUSTOM and (known or gradient.point)


def check_lines(keys: Keys, id: str, table: str) -> str:
    """Return the lines of a check that runs as it is written."""
    written = [f"{key} = {quote_for_toml(x) if isinstance(x, str) else 'true'}" for key, x in keys.items()]
    return "\n".join([f"[[{table}]]", f"id = {quote_for_toml(id)}", *written])


def _keys_with_object(gradient: HandGradient) -> dict[str, str | bool]:
    """Return the keys of a check of a method with an object of its class, where the module holds none."""
    keys = keys_of_check(gradient)
    nameable = gradient.found_by in CUSTOM or gradient.reachable or gradient.only_run
    is_method = "." in gradient.name and "<lambda>" not in gradient.name
    known = gradient.of is not None or gradient.kind == "value-and-grad"
    if nameable or not is_method or not known or _is_class_pass(gradient) or _is_engine_backward(gradient):
        return keys
    owner, _, of = str(gradient.of or gradient.name).rpartition(".")
    claims = {key: str(x).rpartition(".")[2] for key, x in keys.items() if key in _KEYS}
    return {**keys, "target": f"{gradient.file}:{owner}().{of}", **claims}


def keys_of_check(gradient: HandGradient) -> dict[str, str | bool]:
    """Return the target and the claim of a check of a gradient, and its point where the module has one, by their keys."""
    name = gradient.name.replace("<lambda>", "lambda")
    point: dict[str, str | bool] = {"at": f"{gradient.file}:point"} if gradient.point else {}
    by: dict[str, str | bool] = {"wrt": gradient.wrt} if gradient.wrt else {}
    if gradient.found_by in CUSTOM:
        parts = ("" if gradient.of is None else gradient.of).split(".")
        target = gradient.of if all(part.isidentifier() and not keyword.iskeyword(part) for part in parts) else name
        return {"target": f"{gradient.file}:{target}", **by, **point}
    if gradient.kind == "value-and-grad":
        return {"target": f"{gradient.file}:{_name_from_module(gradient, name)}", "value-and-grad": True, **point}
    if _is_class_pass(gradient):
        return {"target": f"{gradient.file}:{gradient.through or gradient.name.rpartition('.')[0]}", **point}
    if gradient.kind == "backward" and "." not in name and gradient.of is not None:
        return {"target": f"{gradient.file}:{gradient.of}", **point}
    if _is_engine_backward(gradient):
        return {"target": f"{gradient.file}:?", "engine": gradient.name.rpartition(".")[0], **point}
    of = _name_from_module(gradient, gradient.of) if gradient.of is not None else "?"
    key = gradient.kind if gradient.kind in _KEYS else "grad"
    return {"target": f"{gradient.file}:{of}", key: _name_from_module(gradient, name), **by, **point}


def _is_class_pass(gradient: HandGradient) -> bool:
    """Whether it is the backward pass of a class with a forward pass, or its gradient beside a loss: checked as one target."""
    (owner, _, name), (of_owner, _, of) = gradient.name.rpartition("."), (gradient.of or "").rpartition(".")
    beside_loss = gradient.kind == "grad" and name in GRADIENT_METHODS and of in LOSSES
    return bool(owner and of_owner) and (gradient.kind == "backward" or (beside_loss and of_owner == owner))


def _is_engine_backward(gradient: HandGradient) -> bool:
    """Whether it is the backward pass of an engine: of objects that stand for numbers."""
    alone = gradient.kind == "backward" and gradient.of is None
    return alone and gradient.found_by not in CUSTOM and "." in gradient.name


def _name_from_module(gradient: HandGradient, name: str) -> str:
    """Return a name as it is reached from the module: a method by an object that the module holds."""
    return f"{gradient.through}.{name.rpartition('.')[2]}" if gradient.through else name


def _note_on_naming(gradient: HandGradient, reason: str) -> list[str]:
    """Return what must be done before the gradient can be named, if anything that the reason why it did not run leaves open."""
    if gradient.found_by in CUSTOM or gradient.reachable:
        return []
    if gradient.name.endswith("<lambda>"):
        return ["A lambda has no name: write it as a function of the module, and name that here."]
    if (gradient.of or "").endswith("<lambda>"):
        return [f"{gradient.name} is a gradient of a lambda: write that as a function of the module, and name it here."]
    if gradient.only_run:
        return [] if reason else [f"gradcli run PROGRAM.py checks it: {gradient.only_run}."]
    if _is_engine_backward(gradient):
        return [f"Name a function whose numbers are objects of {gradient.name.rpartition('.')[0]}."]
    if gradient.of is None and gradient.kind != "value-and-grad":
        return [f"{gradient.name}: name the function that it is a gradient of."]
    if "." in gradient.name:
        owner = gradient.name.rpartition(".")[0]
        of_object = not reason or reason.startswith((f"{owner}(", f"the arguments of {owner}("))
        note = f"Where {owner} needs arguments, write {owner}(?) here: numbers, randn(3, 4), default_rng(0)."
        return [note] if of_object else []
    return [f"{gradient.name} and {gradient.of} are in two files: name both with their files."]


def _point_line(gradient: HandGradient, reason: str) -> list[str]:
    """Return the line of the point, with a mark for each value that is not known.

    A custom function has shapes that are likely, where no other was tried.
    """
    if gradient.point:
        return []
    untried = not reason or reason == f"{gradient.found_by} is not in this environment"
    if gradient.found_by in CUSTOM and gradient.parameters and untried:
        return [f"at = [{quote_for_toml(next(likely_points(gradient.parameters, SIZES[0], as_function=False)))}]"]
    # a value whose default is no number belongs to no point
    numbers = [p for p in gradient.parameters if isinstance(_parse_number(p.default), int | float)]
    defaults = [f"{p.name}={p.default}" for p in numbers]
    shown = [*outline_point(gradient.parameters, gradient.wrt), *defaults] or ["x=randn(?)"]
    return [f"at = [{quote_for_toml(', '.join(shown))}]"]


def _parse_number(text: str) -> object:
    try:
        found = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return None
    return None if isinstance(found, bool) else found


def quote_for_toml(text: str) -> str:
    """Return text as a basic string of TOML, on one line."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


ADDRESS = "gradcli @ git+https://github.com/gradcli/gradcli"  # what pip installs; no index has it
WORKFLOW = """name: gradients
on: [push, pull_request]
permissions:
  contents: read
jobs:
  gradients:
    runs-on: ubuntu-latest
{defaults}    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with:
          python-version: "3.12"
      - run: pip install "{address}"{project}
      - run: gradcli check --out gradcli.xml
      - uses: actions/upload-artifact@v4
        if: always()
        with:
          name: gradcli
          path: {path}
"""
_DEFAULTS = """    defaults:
      run:
        working-directory: {folder}
"""


def workflow_text(project: str, folder: str = "") -> str:
    """Return a workflow of GitHub that runs the suite.

    `project` is what pip installs beside gradcli, such as `.` or `-r requirements.txt`, and `folder` is where the suite lies in
    the repository, empty at its top.
    """
    named = json.dumps(folder, ensure_ascii=False)
    return WORKFLOW.format(
        defaults=_DEFAULTS.format(folder=named) if folder else "", address=ADDRESS, project=f" {project}" if project else "",
        path=json.dumps(f"{folder}/gradcli.xml", ensure_ascii=False) if folder else "gradcli.xml",
    )  # fmt: skip
