"""Points at which a proposed check runs: small shapes and labels by the names of arguments, tried one after the other.

What is tried runs the project's code: in a worker, in an empty folder, and never a file whose top level runs a program.
"""

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from gradcli.project.discovery.project import Found
from gradcli.project.discovery.proposal import CUSTOM, is_live, values
from gradcli.project.suite.executors import Pool
from gradcli.project.suite.job import Answer, Job
from gradcli.request.options import Options
from gradcli.targets.target_request import TargetRequest
from gradcli.words import DiagnosisKind, Kind, Verdict

_MOST = 40  # tries for a check
_SECONDS = 5.0  # for a try
_CLASSES = 4  # entries of what a layer of unknown size returns
_SIZES = (3, 4, 2, 5)  # numbers for the arguments of a constructor, in their order
_PREDICTIONS = re.compile(r".*(pred|hat|prob)|outputs?$|p$", re.IGNORECASE)  # which may have to be probabilities
_LABELS = re.compile(r"(t|y|y_?true|targets?|labels?|idx|ids|index|indices|classes)$")
_WEIGHTS = re.compile(r"([WUVK]\w*|w\d*|weights?|kernel|theta)$")
_ARRAYS = re.compile(r"([WUVK]\w{0,2}|weights?|w\d?|kernel|b\d?|bias(es)?|gamma|beta|scale|shift)$")  # of a constructor
_OF_STATES = ("Wh", "Whh", "W_hh", "U")
_SETTINGS = re.compile(r"(sys\.path|(np\.)?random\.seed|np\.set\w+|warnings|logging|matplotlib\.use)\b")  # no programs
_GENERATORS = re.compile(r"(rng|random_state|generator|rs)$")
_BIASES = re.compile(r"(b\w{0,2}\d*|bias(es)?)$")
_SCALES = re.compile(r"(gamma|beta|scale|shift|mean|var|mu|sigma)$")
_STATES = re.compile(r"(h|c|s|\w*prev\w*|hidden|state_\w+)$")
_TABLES = re.compile(r"(state|cache|params?|parameters|config|\w+_params?|options)$")
_RATES = re.compile(
    r"(p|eps\w*|epsilon|lr|learning_rate|eta|alpha|delta|lam\w*|reg\w*|rate|ratio|keep\w*|momentum|tau)$"
)
_NUMBERS = re.compile(rf"(k|n|power|{_RATES.pattern})$")


@dataclass(frozen=True, slots=True)
class Trial:
    """What trying a check showed: its keys in a suite and the verdict, where it runs; else why the first try did not.

    Once one is `ended`, by a verdict or by the time that it took, no other point is tried.
    """

    keys: dict[str, str | bool] | None = None
    verdict: Verdict | None = None
    reason: str = ""
    ended: bool = False


def tried(gradients: Sequence[Found], folder: Path, tell: Callable[[str], None]) -> dict[int, Trial]:
    """Return what trying each check that is not known to run showed, by the number of the gradient.

    The first try with a verdict is taken, else the first that is inconclusive. `tell` is told what is tried.
    """
    found: dict[int, Trial] = {}
    ended: set[int] = set()
    taken: list[tuple[int, dict[str, str | bool]]] = []
    with TemporaryDirectory() as empty, Pool(1) as pool:

        def jobs() -> Iterator[Job]:
            for number, gradient in enumerate(gradients):
                if gradient.found_by in CUSTOM or is_live(gradient) or "lambda" in gradient.name:
                    continue
                tell(f"trying {gradient.name}, {number + 1} of {len(gradients)}")
                tree = ast.parse((folder / gradient.file).read_bytes())
                if runs_a_program(tree):
                    found[number] = Trial(reason="its file runs a program when it is imported")
                    continue
                for keys in [*candidates(gradient, tree)][:_MOST]:
                    if number in ended:  # one worker has answered before the next job is taken
                        break
                    taken.append((number, keys))
                    yield _job(keys, folder, empty)

        for k, answer in pool.run(jobs()):
            number, keys = taken[k]
            now = _trial(answer, keys, folder)
            before = found.setdefault(number, now)
            if now.verdict is not None and (before.verdict is None or now.ended):
                found[number] = now
            if now.ended:
                ended.add(number)
    return found


def _trial(answer: Answer, keys: dict[str, str | bool], folder: Path) -> Trial:
    document = answer.document
    if "error" in document:
        return Trial(reason=str(document["error"]["message"]).replace(f"{folder.resolve()}/", ""))
    kinds = {f["kind"] for point in document["points"] for f in point["findings"]}
    if Kind.TIMEOUT in kinds and document["verdict"] == Verdict.INCONCLUSIVE:
        return Trial(reason=f"it took longer than {_SECONDS:g} s", ended=True)
    causes = {point["diagnosis"]["kind"] for point in document["points"] if point.get("diagnosis")}
    fits = DiagnosisKind.SHAPE not in causes  # else the point may be one that the layer does not take
    return Trial(keys, Verdict(document["verdict"]), ended=fits and document["verdict"] != Verdict.INCONCLUSIVE)


def _job(keys: dict[str, str | bool], folder: Path, empty: str) -> Job:
    known = {key: x for key, x in keys.items() if key not in ("target", "at", "value-and-grad")}
    claim = next(((key, str(x)) for key, x in known.items()), None)
    file, _, name = str(keys["target"]).partition(":")
    ask = TargetRequest(f"{(folder / file).resolve()}:{name}", (str(keys["at"]),), claim)
    options = Options(timeout=_SECONDS, no_diagnose=True, value_and_grad="value-and-grad" in keys)
    return Job(name, ask, options, empty, (str(folder.resolve()), str((folder / "src").resolve())))


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


def candidates(gradient: Found, tree: ast.Module) -> Iterator[dict[str, str | bool]]:
    """Yield the keys of checks of a gradient that may run, the likeliest first: with an object of its class, and a point."""
    keys = values(gradient)
    if "?" in str(keys["target"]):
        return
    made = list({target: (target, claim, first) for target, claim, first in _targets(keys, gradient, tree)}.values())
    names = [p.name for p in gradient.parameters if not p.default]
    points = [*dict.fromkeys([*(() if gradient.kind == "backward" else _of_a_function(names)), *_of_a_layer(names)])]
    for point in points:
        for target, claim, first in made:
            yield {**keys, "target": target, **claim, "at": point.format(n=first)}


def _targets(
    keys: dict[str, str | bool], gradient: Found, tree: ast.Module
) -> Iterator[tuple[str, dict[str, str | bool], int]]:
    """Yield targets with the objects that they need, the claim where that changes, and the first size of such an object."""
    target = str(keys["target"])
    file, _, name = target.partition(":")
    classes = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    owner, _, method = name.partition(".")
    if owner not in classes or gradient.through:
        yield target, {}, _SIZES[0]
        return
    needed = _needed(classes[owner], classes)
    after = f".{method}" if method else ""
    named = {key: x for key, x in keys.items() if method and isinstance(x, str) and key not in ("target", "at")}
    claim: dict[str, str | bool] = {key: x.rpartition(".")[2] for key, x in named.items()}
    if not needed:
        yield f"{file}:{owner}{'()' if after else ''}{after}", claim, _SIZES[0]
        return
    n, m = _SIZES[0], _CLASSES
    gates = 4 * m if "lstm" in owner.lower() else 3 * m if "gru" in owner.lower() else m
    for drawn in (  # of a dense layer, of one by entries, and of a convolution
        (f"randn({n},{gates})", f"zeros({gates})", f"randn({m},{gates})"), (f"randn({n})", f"zeros({n})", f"randn({n})"),
        (f"randn({m},{n},3,3)", f"zeros({m})", f"randn({m})"),
    ):  # fmt: skip
        if any(map(_ARRAYS.match, needed)):
            sizes = iter(_SIZES * len(needed))
            yield f"{file}:{owner}({', '.join(_made(word, sizes, drawn) for word in needed)}){after}", claim, n
    for each in (_SIZES, (n,) * len(_SIZES)):
        sizes = iter(each * len(needed))
        yield f"{file}:{owner}({', '.join(_made(word, sizes) for word in needed)}){after}", claim, n


def _made(word: str, sizes: Iterator[int], arrays: tuple[str, str, str] | None = None) -> str:
    """Return what an argument of a constructor is given by its name; `arrays` are for a weight, a bias and a state's weight."""
    if _GENERATORS.match(word):
        return "default_rng(0)"
    if arrays is not None and _ARRAYS.match(word):
        return arrays[1 if _BIASES.match(word) else 2 if word in _OF_STATES else 0]
    return "0.5" if _RATES.match(word) else str(next(sizes))


def _needed(of: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> list[str]:
    """Return the arguments that the constructor of a class needs; a base in the same file may have it."""
    for node in of.body:
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            plain = [*node.args.posonlyargs, *node.args.args]
            return [a.arg for a in plain[1 : len(plain) - len(node.args.defaults)]]
    bases = (classes[base.id] for base in of.bases if isinstance(base, ast.Name) and base.id in classes)
    return next((_needed(base, classes) for base in bases if base is not of), [])


def _of_a_function(names: Sequence[str]) -> Iterator[str]:
    """Yield points for arguments of these names, as they are written: vectors, matrices for capitals, then numbers.

    {n} stands for the size that an object has.
    """
    has_matrix = any(name[:1].isupper() for name in names)
    for matrix in ("5,{n}", "{n},{n}"):
        rows = 5 if has_matrix and matrix[0] == "5" else 3
        for label in (str([k % 2 for k in range(rows)]), f"randn({rows})"):

            def drawn(name: str, matrix: str = matrix, label: str = label) -> str:
                if _LABELS.match(name) and len(names) > 1:
                    return label
                return _fixed(name) or f"randn({matrix if name[:1].isupper() else '{n}'})"

            yield ", ".join(f"{name}={drawn(name)}" for name in names)
    yield ", ".join(f"{name}={_fixed(name) or '0.7'}" for name in names)


def _fixed(name: str) -> str:
    """Return the value of an argument that is a table or a number by its name; empty for others."""
    return "{{}}" if _TABLES.match(name) else "0.5" if _NUMBERS.match(name) else ""


def _of_a_layer(names: Sequence[str]) -> Iterator[str]:
    """Yield points for the arguments of a forward pass, as they are written: of several rows first."""
    shapes = [  # of x, of a weight, of a bias, of a scale, of a state
        ("5,{n}", "{n},{m}", "{m}", "{n}", "5,{m}"), ("5,{n}", "{n}", "1", "{n}", "5"),
        ("{n}", "{n}", "1", "{n}", "{m}"), ("{n}", "{m},{n}", "{m}", "{n}", "{m}"),
        ("{n},5", "{m},{n}", "{m},1", "{n},1", "{m},5"), ("2,{n},6,6", "{m},{n},3,3", "{m}", "{n}", "{m}"),
        ("2,1,6,6", "{m},1,3,3", "{m}", "{n}", "{m}"), ("2,5,{n}", "{n},{m}", "{m}", "{n}", "2,{m}"), ("", "", "", "", ""),
    ]  # fmt: skip
    known = {"m": str(_CLASSES), "n": "{n}"}
    for x, weight, bias, scale, state in shapes:
        rows = int(x[0]) if x[:1].isdigit() else 3
        hot = ", ".join("[1, 0, 0]" if k % 2 else "[0, 0, 1]" for k in range(rows))
        labels = [str([k % 2 for k in range(rows)]), f"randn({rows})", f"[{hot}]", ""]
        is_loss = any(map(_LABELS.match, names)) and (len(names) > 1 or names[0].startswith("i"))
        for label in labels if is_loss else [""]:
            parts = []
            for name in names:
                roles = ((_WEIGHTS, weight), (_BIASES, bias), (_SCALES, scale), (_STATES, state))
                shape = next((shape for role, shape in roles if role.match(name)), x)
                drawn = _fixed(name) or (f"randn({shape.format(**known)})" if shape else "0.7")
                if _LABELS.match(name) and label:
                    drawn = label
                elif is_loss and shape and _PREDICTIONS.match(name):
                    drawn = f"uniform(0.1, 0.9, {shape.format(**known)})"
                parts.append(f"{name}={drawn}")
            yield ", ".join(parts)
