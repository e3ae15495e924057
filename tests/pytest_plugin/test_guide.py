"""docs/how-to/pytest.md names what the plugin has."""

from pathlib import Path

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "pytest.md"


def test_the_guide_names_every_option_and_property() -> None:
    import pytest_gradcli

    text = GUIDE.read_text(encoding="utf-8")
    named = ("--gradcli", "--gradcli-inconclusive", "gradcli_inconclusive", "-p no:gradcli", pytest_gradcli.PROPERTY)
    assert all(name in text for name in (*named, *pytest_gradcli.INCONCLUSIVE))
