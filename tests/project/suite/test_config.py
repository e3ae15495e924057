"""What a suite's file may say, and where a mistake in it is shown."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from gradcli.errors import BadOption
from gradcli.project.suite import config
from gradcli.project.suite.config import CheckNames, find_suite, read_suite

# fmt: off
MISTAKES = [  # the text, the line and the columns of the caret, what is said
    ('[[check]]\ntarget = "x"\nallwo = "kink"\n',                 3, (0, 5),   "did you mean 'allow'?"),
    ('sede = 1\n',                                                1, (0, 4),   "did you mean 'seed'?"),
    ('[profile.night]\nsede = 1\n',                               2, (0, 4),   "did you mean 'seed'?"),
    ('[[check]]\ntarget = "x"\n[[check]]\nid = "a"\n',            3, (0, 9),   "a check needs a target"),
    ('[[check]]\ntarget = 3\n',                                   2, (0, 6),   "a check needs a target"),
    ('[[check]]\nid="a"\ntarget="x"\n[[check]]\nid="a"\ntarget="y"\n', 5, (0, 2), "two checks have the id 'a'"),
    ('[[check]]\ntarget = "x"\nseed = "many"\n',                  3, (0, 4),   "a whole number or 'random'"),
    ('seed = "foo"\n',                                           1, (0, 4),   "not 'foo'; write seed = 0"),
    ('[profile.a]\nseed = -1\n',                                 2, (0, 4),   "a whole number or 'random', not '-1'"),
    ('[[check]]\ntarget = "x"\nseed = 18446744073709551616\n',  3, (0, 4),   "at most 18446744073709551615"),
    ('[[check]]\ntarget = "x"\nmutate = "yes"\n',                 3, (0, 6),   "takes true or false"),
    ('[[check]]\ntarget = "x"\norder = 7\n',                      3, (0, 5),   "lies outside"),
    ('[[check]]\ntarget = "x"\nat = [1]\n',                       3, (0, 2),   "a text or a list of texts"),
    ('[[check]]\ntarget = "x"\ngrad = "1"\njvp = "g"\n',          1, (0, 9),   "two claims"),
    ('[[check]]\ntarget = "x"\nrtol = nan\n',                    3, (0, 4),   "lies outside"),
    ('check = 3\n',                                               1, (0, 5),   "a list of tables"),
    ('paths = 3\n',                                               1, (0, 5),   "a list of texts"),
    ('[[check]]\ntarget = """\nallwo = 1\n"""\nallwo = 2\n',      5, (0, 5),   "did you mean 'allow'?"),
    ('check = [{target = "x", allwo = 1}]\n',                     1, (24, 5),  "did you mean 'allow'?"),
    ('[[check]\n',                                                1, (7, 1),   "is not valid TOML"),
    ('[[check]]\ntarget = "\\u0000"\n',                          2, (0, 6),   "the target is empty, or has characters"),
    ('[[check]]\ntarget = "x"\nrtol = 1' + 400 * "0" + '\n',    3, (0, 4),   "takes a number"),
    ('paths = ["a\\u0000"]\n',                                   1, (0, 5),   "no path can have"),
    ('seed = \n',                                                 1, (6, 1),   "is not valid TOML"),
]
# fmt: on


@pytest.mark.parametrize(("text", "line", "columns", "says"), MISTAKES)
def test_a_mistake_is_shown_where_it_is(
    tmp_path: Path, text: str, line: int, columns: tuple[int, int], says: str
) -> None:
    (tmp_path / "gradcli.toml").write_text(text)
    with pytest.raises(BadOption) as caught:
        read_suite(tmp_path / "gradcli.toml")
    where: Any = caught.value.where
    assert says in f"{caught.value.what}; {caught.value.do}"
    assert (where.file, where.line, where.column, where.length) == ("gradcli.toml", line, *columns)


def test_options_of_the_line_count_more_than_those_of_a_profile_a_check_and_the_file(tmp_path: Path) -> None:
    (tmp_path / "gradcli.toml").write_text(
        'seed = 1\nallow = ["kink"]\n[profile.p]\nseed = 3\n[[check]]\ntarget = "x"\n'
        '[[check]]\ntarget = "y"\nseed = 2\nallow = ["noise"]\n'
    )
    options = [check.ask.options for check in read_suite(tmp_path / "gradcli.toml").checks]
    assert [(o.seed, o.allow) for o in options] == [(1, {"kink"}), (2, {"noise"})]
    options = [check.ask.options for check in read_suite(tmp_path / "gradcli.toml", "p").checks]
    assert [o.seed for o in options] == [3, 3]


def test_a_point_is_a_string_of_at(tmp_path: Path) -> None:
    (tmp_path / "gradcli.toml").write_text('[[check]]\ntarget = "x*y"\nat = ["x=1, y=2", "x=3, y=4"]\n')
    (check,) = read_suite(tmp_path / "gradcli.toml").checks
    assert check.ask.at == ("x=1, y=2", "x=3, y=4") and check.ask.separate_points and check.id == "x*y"


@pytest.mark.parametrize("text", ["a = " + 5000 * "[" + 5000 * "]", "seed = " + 5000 * "1"])
def test_what_python_cannot_read_is_no_internal_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "gradcli.toml").write_text(text)
    with pytest.raises(BadOption, match="is not usable"):
        read_suite(tmp_path / "gradcli.toml")


@pytest.mark.parametrize("text", ["tool = 5  # tool.gradcli", 'tool = "gradcli"'])
def test_a_pyproject_without_a_table_has_no_suite(
    gradcli: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "pyproject.toml").write_text(text)
    assert find_suite(tmp_path) is None
    monkeypatch.chdir(tmp_path)
    assert "must be a table" in gradcli("init").stderr


def test_a_mark_at_the_beginning_of_a_file_is_skipped(tmp_path: Path) -> None:
    (tmp_path / "gradcli.toml").write_text('[[check]]\ntarget = "x"\n', encoding="utf-8-sig")
    assert [check.id for check in read_suite(tmp_path / "gradcli.toml").checks] == ["x"]


def test_the_nearest_suite_is_found_and_gradcli_toml_wins(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text('[[tool.gradcli.check]]\ntarget = "x"\n')
    (tmp_path / "a" / "pyproject.toml").write_text('[project]\nname = "a"\n')
    assert find_suite(inner).path == tmp_path / "pyproject.toml"  # type: ignore[union-attr]
    (tmp_path / "gradcli.toml").write_text('[[check]]\ntarget = "y"\n')
    suite: Any = find_suite(inner)
    assert suite.path == tmp_path / "gradcli.toml" and "pyproject.toml" in suite.notes[0]
    (tmp_path / "a" / ".git").mkdir()
    assert find_suite(inner) is None


def test_a_file_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "gradcli.toml"
    file.write_text('[[check]]\ntarget = "x"\n')
    if os.geteuid() == 0:  # files of root are trusted
        os.chown(file, 4321, -1)
    monkeypatch.setattr(config.os, "geteuid", lambda: file.stat().st_uid + 1)
    with pytest.raises(BadOption, match="another user"):
        find_suite(tmp_path)


def test_decorators_declare_checks_too(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(
        "raise SystemExit('never run')\nimport gradcli\nfrom gradcli import checked as mine\n"
        "@gradcli.checked(grad='f_grad', at='x=1')\ndef f(x): ...\n"
        "class K:\n    @staticmethod\n    @mine(id='k', at=['x=1', 'x=2'], allow=['kink'], value_and_grad=True)\n    def g(x): ...\n"
    )
    suite: Any = find_suite(tmp_path)
    assert [(c.id, c.ask.target, c.ask.at) for c in suite.checks] == [
        ("a.py:f", "a.py:f", ("x=1",)), ("k", "a.py:K.g", ("x=1", "x=2")),
    ]  # fmt: skip
    assert suite.checks[1].ask.options.value_and_grad and suite.path is None


@pytest.mark.parametrize(
    ("keywords", "says"), [("at=point", ""), ("at=f()", "no literal"), ("att='x=1'", "'at'?"), ("'x'", "keywords")]
)
def test_a_decorator_that_is_no_literal_is_shown_at_its_line(tmp_path: Path, keywords: str, says: str) -> None:
    (tmp_path / "a.py").write_text(f"import gradcli\n@gradcli.checked({keywords})\ndef f(x): ...\n")
    if not says:
        assert find_suite(tmp_path).checks[0].ask.at == ("point",)  # type: ignore[union-attr]
        return
    with pytest.raises(BadOption) as caught:
        find_suite(tmp_path)
    assert says in f"{caught.value.what} {caught.value.do}" and caught.value.where.line == 2  # type: ignore[union-attr]


def test_no_decorated_check_is_lost(tmp_path: Path) -> None:
    """Those below `if` and `try` count; a file that cannot be read, and a path that is not there, are errors."""
    file = tmp_path / "a.py"
    file.write_text(
        "import gradcli.testing\ntry:\n    import torch\nexcept ImportError:\n    if True:\n"
        "        @gradcli.checked(at='x=1')\n        def f(x): ...\n"
    )
    suite: Any = find_suite(tmp_path)
    assert [check.id for check in suite.checks] == ["a.py:f"]
    file.write_text(file.read_text() + "<<<<<<< HEAD\n")
    with pytest.raises(BadOption, match="cannot be read"):
        find_suite(tmp_path)
    (tmp_path / "gradcli.toml").write_text('paths = ["scr"]\n[[check]]\ntarget = "x"\n')
    with pytest.raises(BadOption, match="paths names 'scr'"):
        find_suite(tmp_path)


def test_the_profile_counts_more_than_a_decorator(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import gradcli\n@gradcli.checked(at='x=1', seed='1')\ndef f(x): ...\n")
    (tmp_path / "gradcli.toml").write_text("seed = 3\n[profile.night]\nseed = 2\n")
    seeds = [read_suite(tmp_path / "gradcli.toml", profile).checks[0].ask.options.seed for profile in (None, "night")]
    assert seeds == [1, 2]


def test_the_decorator_returns_the_function() -> None:
    from gradcli import checked

    assert checked(grad="g", at="x=1")(len) is len


def test_the_schema_accepts_what_is_read(gradcli: Callable[..., Any]) -> None:
    schema = json.loads(gradcli("schema", "config").stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    good: dict[str, Any] = {
        "seed": 0,
        "timeout": "60s",
        "paths": ["src"],
        "check": [{"target": "x", "at": ["x=1"], "mutate": True}],
    }
    jsonschema.validate(good, schema)
    for bad in ({"sede": 0}, {"check": [{}]}, {"check": [{"target": "x", "allwo": 1}]}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(bad, schema)


def test_names_of_checks_are_all_different() -> None:
    names = CheckNames(["f"])
    assert [names.of(text) for text in ("f", "f#2", "f", "g")] == ["f#2", "f#2#2", "f#3", "g"]
