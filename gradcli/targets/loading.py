"""Load Python targets: the objects that `losses.py:focal` and `package.module:Model.loss` name."""

import ast
import contextlib
import importlib
import importlib.metadata
import importlib.util
import inspect
import json
import os
import random
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from gradcli.arithmetic.devices import quiet_imports
from gradcli.classes import dataclass
from gradcli.errors import BadTarget
from gradcli.request.target_text import TARGET
from gradcli.targets.missing import (
    SOURCES,
    invalid_python_error,
    missing_file_error,
    missing_module_error,
    missing_name_error,
)
from gradcli.targets.python import message_of
from gradcli.tracing.provenance import is_users_file, path_for_display, place_of_error, treat_folder_as_users

NOTEBOOK = "__main__"  # the module that holds the names of a notebook, which messages name alone
# their own lines are not the user's
_LIBRARIES = {"numpy", "scipy", "torch", "jax", "jaxlib", "tensorflow", "mlx", "gradcli", "keras"}
_PAIRS = ("{}_grad", "grad_{}", "d{}", "{}_jac", "{}_gradient")


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a Python target names, and the module it was found in."""

    text: str
    found: Any
    module: ModuleType


def load(text: str, what: str = "function") -> Loaded:
    """Return the object that a Python target names; this imports, and so runs, the user's module.

    `what` is what messages call the object.

    Raises  BadTarget if there is no such file or name (it suggests near ones), or if the module itself raises an error
            (with its line).
    """
    match = TARGET.fullmatch(text.strip())
    if match is None:
        module = _load_module(text.strip())
        raise BadTarget(f"'{text.strip()}' names no function", do=_offer_functions(module, text.strip()))
    module = _load_module(match["file"])
    np.random.seed(0)  # what a constructor and a layer draw is the same in every run
    random.seed(0)
    found = _require_member(module, match["name"], match["file"], what)
    if match["made"]:
        args, kwargs = _parse_arguments(match["inside"], match["name"])
        with run_user_code(f"{match['name']}({match['inside']})"):
            found = found(*args, **kwargs)
        for part in filter(None, match["after"].split(".")):
            if not hasattr(found, part):
                made = f"{match['name']}(...)"
                known = names_of_callables(type(found))
                raise missing_name_error(made, part, known, f"{match['file']}:{made}.?", what)
            found = getattr(found, part)
    shown = text.strip().removeprefix(f"{NOTEBOOK}:")
    return Loaded(shown, found, module)


def _parse_arguments(inside: str, name: str) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments of a call in a target: literals of Python, draws and generators. Raises BadTarget."""
    says = f"the arguments of {name}({inside}) are no literals, arrays or generators"
    try:
        call = ast.parse(f"_({inside})", mode="eval").body
        if not isinstance(call, ast.Call) or any(part.arg is None for part in call.keywords):
            raise ValueError
        return (
            [_parse_argument(x, f"{name} {k}") for k, x in enumerate(call.args)],
            {str(k.arg): _parse_argument(k.value, f"{name} {k.arg}") for k in call.keywords},
        )
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError, ArithmeticError, IndexError):
        do = "write numbers, strings, lists, dicts, True, False, None, randn(3, 5), zeros(5) or default_rng(0)"
        raise BadTarget(says, do=do) from None


def _parse_argument(node: ast.expr, stream: str) -> Any:
    """Return a literal, an array as `--at` draws it from a stream of its own, or a generator of numpy.

    Raises  ValueError, TypeError for anything else; TooLarge.
    """
    if not isinstance(node, ast.Call):
        return ast.literal_eval(node)
    from gradcli.targets.draws import BY_SIZE, RandomStream
    from gradcli.targets.limits import Ledger

    name = ast.unparse(node.func)
    args = [ast.literal_eval(x) for x in node.args]
    if node.keywords:
        raise ValueError
    if name.removeprefix("np.random.") in ("default_rng", "RandomState"):
        return getattr(np.random, name.removeprefix("np.random."))(*args)
    if name not in BY_SIZE:
        raise ValueError
    Ledger().enter(BY_SIZE[name].entries(*args))
    return RandomStream(0, stream, 0).functions()[name](*args)


def module_of(text: str) -> ModuleType:
    """Return the module of a Python target. Raises BadTarget."""
    match = TARGET.fullmatch(text.strip())
    return _load_module(text.strip() if match is None else match["file"])


def find_member(module: ModuleType, name: str) -> Any:
    """Return the object that a dotted name refers to in a module, or None.

    Raises  BadTarget for a method whose class cannot be instantiated without arguments.
    """
    found: Any = module
    reached = ""
    for part in name.split("."):
        found = _bound_method(found, part, reached, module.__name__) if hasattr(found, part) else None
        reached = f"{reached}.{part}" if reached else part
    return found


def likely_gradients(module: ModuleType, name: str) -> list[str]:
    """Return the functions of a module that look like the gradient of the one named."""
    base, _, last = name.rpartition(".")
    owner = find_member(module, base) if base else module
    likely = [pattern.format(last) for pattern in _PAIRS]
    return [f"{base}.{other}" if base else other for other in likely if callable(getattr(owner, other, None))]


def _load_module(file: str) -> ModuleType:
    return _load_file(Path(file)) if file.endswith(".py") else _import_module(file)


def _import_module(name: str) -> ModuleType:
    if Path(SOURCES).is_dir() and not Path(SOURCES, "__init__.py").exists():
        make_importable(str(Path(SOURCES).absolute()))
    make_importable(str(Path.cwd()))
    top = name.split(".")[0]
    if top not in sys.modules and importlib.util.find_spec(top) is None:
        raise missing_module_error(name)
    with run_user_code(name):
        module = importlib.import_module(name)
    if getattr(module, "__file__", None) and top not in _LIBRARIES:
        treat_folder_as_users(str(Path(str(sys.modules[top].__file__ or module.__file__)).parent))
    return module


def _load_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise missing_file_error(str(path))
    path = path.resolve()
    root, name = _package_of_file(path)
    make_importable(str(Path.cwd()))
    make_importable(str(path.parent), first=True)
    for file in path.parent.glob("*.py"):  # forget the user's modules of the same names that another folder gave
        namesake = getattr(sys.modules.get(file.stem), "__file__", None)
        if isinstance(namesake, str) and is_users_file(namesake) and Path(namesake).resolve() != file:
            del sys.modules[file.stem]
    treat_folder_as_users(str(path.parent))
    if "." in name:
        make_importable(str(root))
        with run_user_code(path_for_display(str(path))):
            return importlib.import_module(name)
    for known in (name, f"{name}_target"):  # a file may have the name of a module that is already loaded
        module = sys.modules.get(known)
        if module is not None and Path(str(getattr(module, "__file__", None) or "")) == path:
            return module
    return _execute_file(path, name if name not in sys.modules else f"{name}_target")


def _execute_file(path: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise BadTarget(f"{path} cannot be loaded as Python", do="give a .py file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        with run_user_code(path_for_display(str(path))):
            try:
                spec.loader.exec_module(module)
            except FileNotFoundError as error:
                data = error.filename or str(error).removesuffix(" not found.")  # np.loadtxt's, which sets no filename
                if not isinstance(data, str) or Path(data).is_absolute() or not (path.parent / data).exists():
                    raise
                with contextlib.chdir(path.parent):  # the file opens its data by paths relative to its own folder
                    spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def _package_of_file(path: Path) -> tuple[Path, str]:
    """Return the parent folder of the outermost package that contains a file, and the file's dotted name from there."""
    names, folder = [path.stem], path.parent
    while (folder / "__init__.py").is_file() and folder.name.isidentifier():
        names.insert(0, folder.name)
        folder = folder.parent
    return folder, ".".join(names)


def make_importable(folder: str, *, first: bool = False) -> None:
    """Let modules be imported from a folder, before all others if it is to be the first."""
    if first and sys.path[:1] != [folder]:
        sys.path[:] = [folder, *(other for other in sys.path if other != folder)]
    elif folder not in sys.path:
        sys.path.insert(0, folder)


def _require_member(module: ModuleType, name: str, file: str, what: str) -> Any:
    found: Any = module
    reached = ""
    for part in name.split("."):
        if not hasattr(found, part):
            known = names_of_callables(found) if what == "function" else public_names(found)
            where = f"{reached} of {file}" if reached else file
            raise missing_name_error(where, part, known, f"{file}:{reached}.?" if reached else f"{file}:?", what)
        found = _bound_method(found, part, reached or part, file)
        reached = f"{reached}.{part}" if reached else part
    return found


def public_names(owner: Any) -> list[str]:
    """Return the names of what a module or an object holds, without modules and private names."""
    held = vars(owner) if hasattr(owner, "__dict__") else {}
    return [name for name, x in held.items() if not name.startswith("_") and not isinstance(x, ModuleType)]


def _bound_method(owner: Any, part: str, where: str, file: str) -> Any:
    """Return a member; a method of a class is bound to an instance made without arguments."""
    found = getattr(owner, part)
    if not inspect.isclass(owner) or not inspect.isfunction(inspect.getattr_static(owner, part)):
        return found
    if next(iter(inspect.signature(found).parameters), None) != "self":
        return found
    try:
        instance = owner()
    except TypeError as error:
        says = f"{where}.{part} needs an instance, and {where}() cannot be made without arguments"
        module = sys.modules.get(owner.__module__)
        own = getattr(module, where, None) is owner and owner.__module__ in (file, Path(file).stem)
        made = next((key for key, x in vars(module).items() if type(x) is owner), None) if own else None
        named = f"{file}:{made}.{part}" if made else f'"{write_constructor(owner, f"{file}:{where}")}.{part}"'
        raise BadTarget(says, do=f"name one: {named}") from error
    return getattr(instance, part)


def write_constructor(kind: type, text: str) -> str:
    """Return the call that makes an object of a class, with `...` for each argument that it needs."""
    try:
        known = [*inspect.signature(kind).parameters.values()]
    except (TypeError, ValueError):
        known = []
    plain = [p for p in known if p.default is p.empty and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    return f"{text}({', '.join(f'{p.name}=...' for p in plain)})"


def names_of_callables(owner: Any) -> list[str]:
    """Return the names of the public callables that an object defines; a module's imported ones are left out."""
    name = getattr(owner, "__name__", None)
    held = vars(owner).items() if hasattr(owner, "__dict__") else ()
    called = [(key, x) for key, x in held if callable(x) and not key.startswith("_")]
    imported = isinstance(owner, ModuleType)
    return [key for key, x in called if not imported or getattr(x, "__module__", name) == name]


def _offer_functions(module: ModuleType, file: str) -> str:
    names = [name for name in names_of_callables(module) if not inspect.isclass(getattr(module, name))]
    likely = [(name, other) for name in names for other in likely_gradients(module, name)]
    kinds = [name for name in names_of_callables(module) if hasattr(getattr(module, name), "backward")]
    classes = f"the class{'es' * (len(kinds) > 1)} {', '.join(kinds[:20])}" if kinds else ""
    if not names:
        return f"it defines no functions{f'; it has {classes}' * bool(classes)}"
    said = f"it has: {', '.join(names[:20])}{f'; and {classes}' * bool(classes)}"
    return said + "".join(f"\n  gradcli check {file}:{name} --grad {other}" for name, other in likely[:5])


def treat_package_as_users(function: Any) -> None:
    """Treat the installed package that defines a function, or the class of its object, as the user's code."""
    function = inspect.unwrap(getattr(function, "func", function))
    owner = getattr(function, "__self__", function)
    kinds = [] if inspect.ismodule(owner) else inspect.getmro(owner if inspect.isclass(owner) else type(owner))
    for name in {getattr(x, "__module__", None) or "" for x in (function, *kinds)}:
        top = name.partition(".")[0]
        file = getattr(sys.modules.get(top), "__file__", None)
        if file and top not in _LIBRARIES and top not in sys.stdlib_module_names and not is_users_file(file):
            treat_folder_as_users(str(Path(file).parent))


@contextmanager
def run_user_code(what: str, kind: type[BadTarget] | Callable[..., Any] = BadTarget) -> Iterator[None]:
    """Turn any exception of the user's code into one error of type `kind`, with its message and line."""
    try:
        with quiet_imports():
            yield
    except BadTarget:
        raise
    except SyntaxError as error:
        raise invalid_python_error(what, error, kind) from error
    except SystemExit as error:
        under = 'put the code that runs under: if __name__ == "__main__":'
        where = place_of_error(error.__traceback__)
        raise kind(f"{what} called sys.exit({error.code!r})", where=where, do=under) from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        did = "cannot be loaded" if kind is BadTarget and not what.endswith(")") else "raised"
        do = where_to_install(error.name) if isinstance(error, ModuleNotFoundError) and error.name else None
        raise kind(f"{what} {did}: {message_of(error)}", where=place_of_error(error.__traceback__), do=do) from error


# A package that this environment lacks: gradcli is to be installed in the one that has it.

_ENVIRONMENTS = (".venv", "venv", "env")  # folders of a project


def where_to_install(module: str) -> str | None:
    """Return where to install gradcli for a module that is not here; None where it may be one of the user's own.

    It is a package of another environment: the active one, one in a folder of the project, or that of a Python on the PATH.
    """
    name = module.partition(".")[0]
    if name in sys.modules or importlib.util.find_spec(name) is not None:
        return None
    found = next((python for python in _other_pythons() if _has_package(python, name)), None)
    if found is None and name not in _LIBRARIES:
        return None
    # What `pip install` takes to install this gradcli is where it was installed from.
    text = importlib.metadata.distribution("gradcli").read_text("direct_url.json") or "{}"
    source = str(json.loads(text).get("url", "PATH-OF-A-CLONE-OF-GRADCLI")).removeprefix("file://")
    install = f"{found or 'PATH/python'} -m pip install {source}"
    return f"{name} is not in this environment; install gradcli where {name} is: {install}"


def _other_pythons() -> Iterator[Path]:
    roots = [os.environ.get(name) for name in ("VIRTUAL_ENV", "CONDA_PREFIX")]
    here = Path.cwd()
    roots += [str(folder / name) for folder in (here, *here.parents) for name in _ENVIRONMENTS]
    inside = ("Scripts", "python.exe") if os.name == "nt" else ("bin", "python")
    yield from (python for root in roots if root and (python := Path(root, *inside)).is_file())
    yield from (Path(found) for name in ("python3", "python") if (found := shutil.which(name)))


def _has_package(python: Path, name: str) -> bool:
    root = python.resolve().parents[1] if not (python.parents[1] / "pyvenv.cfg").is_file() else python.parents[1]
    libraries = [root / "Lib", *root.glob("lib/python3*")]
    return any((library / "site-packages" / name).is_dir() for library in libraries)
