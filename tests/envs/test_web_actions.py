import pytest

from envs.web.view.actions import SIGNATURES, ActionError, parse

EVERYTHING = frozenset(SIGNATURES)


@pytest.mark.parametrize(
    ("text", "name", "arguments"),
    [
        ("click('12')", "click", (12, "left")),
        ("click(12, button='right')", "click", (12, "right")),
        (" fill('3', 'it\\'s \"so\"') ", "fill", (3, 'it\'s "so"')),
        ("fill(bid='3', value='')", "fill", (3, "")),
        ("select_option('4', 'red')", "select_option", (4, ("red",))),
        ("select_option('4', ['red', 'blue'])", "select_option", (4, ("red", "blue"))),
        ("scroll(0, -200.5)", "scroll", (0.0, -200.5)),
        ("drag_and_drop('1', '2')", "drag_and_drop", (1, 2)),
        ("noop()", "noop", (1000.0,)),
        ("press('7', 'Control+A')", "press", (7, "Control+A")),
    ],
)
def test_browsergyms_notation_is_read(text, name, arguments):
    action = parse(text, EVERYTHING)
    assert (action.name, action.arguments) == (name, arguments)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "that is no action"),
        ("click the button", "that is no action"),
        ("click('1'); click('2')", "that is no action"),
        ("page.click('1')", "that is no action"),
        ("tap('1')", "there is no action tap"),
        ("click()", r"write it as click\(bid, button='left'\)"),
        ("click('a1')", "write it as click"),
        ("click('1', 'left', 3)", "write it as click"),
        ("click('1', bid='1')", "write it as click"),
        ("click(True)", "write it as click"),
        ("click(**{'bid': '1'})", "write it as click"),
        ("fill('1', __import__('os').getcwd())", "write it as fill"),
        ("fill('1', 2)", "write it as fill"),
        ("scroll(1e9, 0)", "write it as scroll"),
        ("select_option('1', [])", "write it as select_option"),
        ("(" * 5000, "that is no action"),
        ("fill('1', '" + "a" * 10_000 + "')", "at most"),
    ],
)
def test_what_is_no_action_is_said_and_never_executed(text, complaint):
    with pytest.raises(ActionError, match=complaint):
        parse(text, EVERYTHING)


def test_only_allowed_actions_are_read():
    with pytest.raises(ActionError, match="there is no action goto; there are click"):
        parse("goto('http://example.org')", frozenset({"click"}))
