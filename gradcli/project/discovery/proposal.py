"""The suite that `gradcli init` proposes for what was found, and the workflow that runs it, as texts."""

import ast
import importlib.util
import itertools
import json
import keyword
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from gradcli.classes import dataclass
from gradcli.project.discovery.bodies import SourceFunction, collect_scopes, last_name
from gradcli.project.discovery.parameters import (
    CLASSES,
    RATES,
    SIZES,
    describe_parameters,
    is_data_name,
    likely_points,
    likely_values,
    outline_point,
    parameter_of_annotation,
)
from gradcli.project.discovery.project import HandGradient, Parameter
from gradcli.project.suite.config import KEYS, option_values
from gradcli.project.suite.executors import Pool
from gradcli.project.suite.job import Job, JobResult
from gradcli.request.options import Options
from gradcli.request.target_text import GRADIENT_METHODS, LOSSES
from gradcli.targets.target_request import TargetRequest
from gradcli.words import DiagnosisKind, Kind, Verdict

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


# Points at which a proposed check runs: small shapes and labels by the names of arguments, tried one after the other.
#
# What is tried runs the project's code: in a worker, in an empty folder, and never a file whose top level runs a program.

_MOST = 120  # tries for a check
_ALIKE = 12  # tries that end with the same words, after which no more are made
_SHAPE = re.compile(r"\(([^()]*\d[^()]*)\)")  # in an error, as (8,8) or (size 3 is different from 8)
_LARGEST = 64  # of the sizes that an error speaks of, and are tried
_MOST_SIZES = 3
_MOST_CONSTRUCTORS = 2  # of arrays
_SECONDS = 5.0  # for a try
_LOADING = 60.0  # for a try that loads a framework
_ARRAYS = re.compile(r"([WUVK]\w{0,2}|weights?|w\d?|kernel|b\d?|bias(es)?|gamma|beta|scale|shift)$")  # of a constructor
_ARGUMENTS = (3, 4, 2, 5)  # numbers for the arguments of a constructor, in their order
_OF_STATES = ("Wh", "Whh", "W_hh", "U")
_NOT_TRIED = tuple(framework for framework in CUSTOM if framework != "torch")
_SETTINGS = re.compile(r"(sys\.path|(np\.)?random\.seed|np\.set\w+|warnings|logging|matplotlib\.use)\b")  # no programs
_BIASES = re.compile(r"(b\w{0,2}\d*|bias(es)?)$")
_GENERATORS = re.compile(r"(rng|random_state|generator|rs)$")


@dataclass(frozen=True, slots=True)
class Trial:
    """What trying a check showed: its keys in a suite and the verdict, where it runs; else why it did not.

    Once one is `ended`, by a verdict, by its time, or as no point can help, no other point is tried. At a point that is
    `plausible` the function had a value, or lacked a key alone.
    """

    keys: dict[str, str | bool] | None = None
    verdict: Verdict | None = None
    reason: str = ""
    ended: bool = False
    plausible: bool = False


def try_checks(gradients: Sequence[HandGradient], folder: Path, tell: Callable[[str], None]) -> dict[int, Trial]:
    """Return what trying each check that is not known to run showed, by the number of the gradient.

    The first try with a verdict is taken, else the first that is inconclusive. `tell` is told what is tried.
    """
    found: dict[int, Trial] = {}
    loaded: set[str] = set()
    with TemporaryDirectory() as empty, Pool(1) as pool:
        for number, gradient in enumerate(gradients):
            if is_complete_check(gradient):
                continue
            tree = ast.parse((folder / gradient.file).read_bytes())
            reason = _find_hindrance(gradient, tree)
            if reason or gradient.found_by in _NOT_TRIED:
                found[number] = Trial(reason=reason)
                continue
            tell(f"trying {gradient.name}, {number + 1} of {len(gradients)}")
            imported = collect_scopes(tree, "").imported
            slow = {each for each in CUSTOM if each in imported and importlib.util.find_spec(each) is not None}
            tried: list[Trial] = []
            for keys in _keys_to_try(gradient, tree, tried):
                job = _job_of_keys(keys, folder, empty, _SECONDS if slow <= loaded else _LOADING)
                loaded |= slow
                ((_, answer),) = pool.run([job])
                tried.append(_trial_of_answer(answer, keys, folder))
                alike = len(tried) == _ALIKE and len({trial.reason for trial in tried}) == 1
                if tried[-1].ended or (alike and tried[-1].verdict is None):
                    break
            if tried:
                found[number] = max(tried, key=lambda t: (bool(t.verdict and t.ended), bool(t.verdict), t.plausible))
    return found


def _keys_to_try(gradient: HandGradient, tree: ast.Module, tried: Sequence[Trial]) -> Iterator[dict[str, str | bool]]:
    """Yield keys of checks, each once: in the end with sizes that are in the errors of what was `tried` until then."""
    several: list[dict[str, str | bool]] = []
    for again in (False, True):
        sizes = _sizes_in_errors(trial.reason for trial in tried) if again else SIZES
        for keys in itertools.islice(candidate_keys(gradient, tree, sizes, again), _MOST):
            if keys not in several:
                several.append(keys)
                yield keys


def _sizes_in_errors(reasons: Iterable[str]) -> list[int]:
    """Return the sizes of arrays that errors speak of, as in `shapes (8,8) (3,)`, the most frequent first."""
    shapes = (shape for reason in reasons for shape in _SHAPE.findall(reason))
    counts = Counter(int(size) for shape in shapes for size in re.findall(r"\d+", shape))
    return [size for size, _ in counts.most_common() if size not in SIZES and 1 < size <= _LARGEST][:_MOST_SIZES]


def _find_hindrance(gradient: HandGradient, tree: ast.Module) -> str:
    """Return why no point can make a check run; empty where one may."""
    if gradient.found_by in CUSTOM and importlib.util.find_spec(gradient.found_by) is None:
        return f"{gradient.found_by} is not in this environment"
    if gradient.only_run:
        return f"gradcli run PROGRAM.py checks it: {gradient.only_run}"
    if any(p.kind == "function" and not p.default for p in gradient.parameters):
        return f"its argument {next(p.name for p in gradient.parameters if p.kind == 'function')} is a function"
    if runs_a_program(tree):
        return "its file runs a program when it is imported"
    owner, classes = gradient.name.partition(".")[0], _classes_in_file(tree)
    if not gradient.through and owner in classes and not _concrete_classes(owner, classes):
        return f"{owner} is an abstract class, and its file has no class that is made of it"
    return ""


_MISSING = re.compile(r".*cannot be loaded: ModuleNotFoundError: No module named '(\w+)")


def _trial_of_answer(answer: JobResult, keys: dict[str, str | bool], folder: Path) -> Trial:
    document = answer.document
    if "error" in document:
        reason = str(document["error"]["message"]).replace(f"{folder.resolve()}/", "")
        missing = _MISSING.match(reason)
        if missing is not None:
            return Trial(reason=f"{missing[1]} is not in this environment", ended=True)
        by_key = " raised KeyError: '" in reason  # which names what is missing
        plausible = by_key or not reason.startswith(f"{keys['target']} raised ")
        return Trial(reason=reason, ended=" cannot be loaded: " in reason, plausible=plausible)
    kinds = {f["kind"] for point in document["points"] for f in point["findings"]}
    if Kind.TIMEOUT in kinds and document["verdict"] == Verdict.INCONCLUSIVE:
        return Trial(reason=f"it took longer than {_SECONDS:g} s", ended=True)
    causes = [point["diagnosis"] for point in document["points"] if point.get("diagnosis")]
    unfit = next((cause["message"] for cause in causes if cause["kind"] == DiagnosisKind.SHAPE), None)
    if unfit is not None:  # the point may be one that is not meant, as a number for an array
        return Trial(reason=f"at the sizes that were tried, {unfit}", plausible=True)
    return Trial(keys, Verdict(document["verdict"]), ended=document["verdict"] != Verdict.INCONCLUSIVE)


def _job_of_keys(keys: dict[str, str | bool], folder: Path, empty: str, seconds: float) -> Job:
    file, _, name = str(keys["target"]).partition(":")
    given = option_values(keys, KEYS, ("target", "at"), file, lambda key: None)
    options = Options(timeout=seconds, no_diagnose=True, **given)
    ask = TargetRequest(f"{(folder / file).resolve()}:{name}", (str(keys["at"]),), options)
    return Job(name, ask, empty, (str(folder.resolve()), str((folder / "src").resolve())))


def runs_a_program(tree: ast.Module) -> bool:
    """Whether a file, when it is imported, loops, or calls something for its effect, or a function of its own.

    What `if __name__ == "__main__"` holds does not run.
    """
    own = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}

    def runs(node: ast.stmt) -> bool:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            return False
        if isinstance(node, ast.If):
            return "__name__" not in ast.unparse(node.test) and any(map(runs, (*node.body, *node.orelse)))
        if isinstance(node, ast.Try):
            handled = (part for handler in node.handlers for part in handler.body)
            return any(map(runs, (*node.body, *node.orelse, *node.finalbody, *handled)))
        calls = (part.func for part in ast.walk(node) if isinstance(part, ast.Call))
        of_own = any(isinstance(called, ast.Name) and called.id in own for called in calls)
        alone = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
        alone = alone and not _SETTINGS.match(ast.unparse(node))
        return alone or of_own or isinstance(node, ast.For | ast.While | ast.With)

    return any(map(runs, tree.body))


def candidate_keys(
    gradient: HandGradient, tree: ast.Module, sizes: Sequence[int] = SIZES, again: bool = False
) -> Iterator[dict[str, str | bool]]:
    """Yield the keys of checks of a gradient that may run, the likeliest first: with an object of its class, and a point.

    Vectors have one of the `sizes`, the first of them first. Once it is done `again` with others, layers are left out.
    """
    keys = keys_of_check(gradient)
    if "?" in str(keys["target"]):
        return
    made = {target: (claim, first) for target, claim, first in _candidate_targets(keys, gradient, tree)}
    layers = gradient.kind == "backward"
    tries = [(n, False) for n in sizes if not layers or again] + [(n, True) for n in sizes[:1] if not again]
    for n, as_layer in tries:
        once = n == sizes[0] and not again  # for those with a size of their own
        own = [(target, claim, first or n) for target, (claim, first) in made.items() if first is None or once]
        streams = [likely_points(gradient.parameters, m, gradient.wrt, as_layer, not layers) for _, _, m in own]
        for several in itertools.zip_longest(*streams):
            for (target, claim, _), point in zip(own, several, strict=True):
                if point is None:
                    continue
                found = {**keys, "target": target, **claim, "at": point}
                yield found
                definite = re.findall(r"(\w+)=spd\(", point)
                if definite:  # a function may read one triangle of such a matrix
                    yield {**found, "assume": "; ".join(f"{name}: spd" for name in definite), "structure": True}


def _candidate_targets(
    keys: dict[str, str | bool], gradient: HandGradient, tree: ast.Module
) -> Iterator[tuple[str, dict[str, str | bool], int | None]]:
    """Yield targets with the objects that they need, the claim where that changes, and the first size of such an object.

    The size is None where the object needs none.
    """
    target = str(keys["target"])
    file, _, name = target.partition(":")
    owner, _, method = name.partition(".")
    classes = _classes_in_file(tree)
    if owner not in classes or gradient.through:
        yield target, {}, None
        return
    after = f".{method}" if method else ""
    named = {key: x for key, x in keys.items() if method and isinstance(x, str) and key not in ("target", "at")}
    claim: dict[str, str | bool] = {key: x.rpartition(".")[2] for key, x in named.items()}
    for each in _concrete_classes(owner, classes):
        needed = _required_arguments(classes[each], classes)
        if not needed:
            yield f"{file}:{each}{'()' if after else ''}{after}", claim, None
        for arguments in _constructor_arguments(each, needed) if needed else ():
            yield f"{file}:{each}({', '.join(arguments)}){after}", claim, SIZES[0]


def _classes_in_file(tree: ast.Module) -> dict[str, ast.ClassDef]:
    return {node.name: node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}


def _concrete_classes(owner: str, classes: Mapping[str, ast.ClassDef]) -> list[str]:
    """Return a class, or where it is abstract the classes of the file that are made of it and are not."""
    if not _is_abstract(classes[owner]):
        return [owner]
    bases = {name: {last_name(base) for base in node.bases} for name, node in classes.items()}
    made = [name for name in classes if owner in bases[name] and name != owner]
    return [each for name in made for each in _concrete_classes(name, classes)]


def _is_abstract(of: ast.ClassDef) -> bool:
    """Whether a method of a class only raises NotImplementedError, or says that it is abstract."""
    for node in of.body:
        if isinstance(node, ast.FunctionDef):
            raises = [each for each in node.body if isinstance(each, ast.Raise) and each.exc is not None]
            only = len(node.body) - (ast.get_docstring(node) is not None) == 1
            if only and raises and last_name(raises[0].exc or ast.Name("")) == "NotImplementedError":
                return True
            if any(last_name(decorator).startswith("abstract") for decorator in node.decorator_list):
                return True
    return False


def _constructor_arguments(owner: str, needed: Sequence[Parameter]) -> Iterator[list[str]]:
    """Yield the arguments of a constructor, as they are written: arrays of layers, then numbers and arrays of other models."""
    n, m = SIZES[0], CLASSES
    gates = 4 * m if "lstm" in owner.lower() else 3 * m if "gru" in owner.lower() else m
    names = [parameter.name for parameter in needed]
    for drawn in (  # of a dense layer, of one by entries, and of a convolution
        (f"randn({n},{gates})", f"zeros({gates})", f"randn({m},{gates})"), (f"randn({n})", f"zeros({n})", f"randn({n})"),
        (f"randn({m},{n},3,3)", f"zeros({m})", f"randn({m})"),
    ):  # fmt: skip
        if any(map(_ARRAYS.match, names)):
            sizes = iter(_ARGUMENTS * len(names))
            yield [_argument_text(name, sizes, drawn) for name in names]
    counted = []
    for each in (_ARGUMENTS, (n,) * len(_ARGUMENTS)):
        sizes = iter(each * len(names))
        counted.append([_argument_text(name, sizes) for name in names])
    arrays = []
    for as_layer in (False, True):
        found = likely_values(needed, n, "", as_layer, not as_layer)
        written = ([values[name] for name in names] for values in found)
        arrays += [*itertools.islice((each for each in written if "int(" not in str(each)), _MOST_CONSTRUCTORS)]
    of_data = any(p.kind or p.sizes or is_data_name(p.name) for p in needed)
    yield from [*arrays, *counted] if of_data else [*counted, *arrays]


def _argument_text(word: str, sizes: Iterator[int], arrays: tuple[str, str, str] | None = None) -> str:
    """Return what an argument of a constructor is given by its name; `arrays` are for a weight, a bias and a state's weight."""
    if _GENERATORS.match(word):
        return "default_rng(0)"
    if arrays is not None and _ARRAYS.match(word):
        return arrays[1 if _BIASES.match(word) else 2 if word in _OF_STATES else 0]
    return "0.5" if RATES.match(word) else str(next(sizes))


def _required_arguments(of: ast.ClassDef, classes: Mapping[str, ast.ClassDef]) -> list[Parameter]:
    """Return the arguments that the constructor of a class needs; a base in the same file may have it."""
    for node in of.body:
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            found = describe_parameters(SourceFunction("", "__init__", node.lineno, of.name, node, of.name))
            return [parameter for parameter in found if not parameter.default]
    if any(last_name(decorator) == "dataclass" for decorator in of.decorator_list):
        fields = [node for node in of.body if isinstance(node, ast.AnnAssign) and node.value is None]
        named = [(node.target, node.annotation) for node in fields]
        return [parameter_of_annotation(name.id, kind) for name, kind in named if isinstance(name, ast.Name)]
    bases = (classes[base.id] for base in of.bases if isinstance(base, ast.Name) and base.id in classes)
    return next((_required_arguments(base, classes) for base in bases if base is not of), [])
