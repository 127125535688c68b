import pytest

from envs.web.browser import AllowedHosts, shared_browser
from envs.web.browser.pinned import Pinned
from envs.web.view import OBSERVE, VIEW_SCRIPT, ActionError, PageView, Settings, carry_out, parse
from envs.web.view.actions import SIGNATURES
from envs.web.view.hands import Mouse


class Shown:
    """A page made of some HTML, and what is done to it."""

    def __init__(self, tab) -> None:
        self.tab, self.mouse = tab, Mouse()

    def show(self, html: str) -> None:
        self.tab.call(lambda page: page.goto("about:blank"))
        self.tab.call(lambda page: page.set_content(html))

    def view(self, settings: Settings | None = None) -> PageView:
        return PageView.of(self.tab.call(lambda page: page.evaluate(OBSERVE, (settings or Settings()).json())))

    def tree(self) -> str:
        return self.view().tree

    def act(self, *actions: str) -> str:
        for action in actions:
            self.view()
            command = parse(action, frozenset(SIGNATURES))
            self.tab.call(lambda page, command=command: carry_out(page, command, self.mouse))
        return self.tree()

    def run(self, script: str):
        return self.tab.call(lambda page: page.evaluate(script))


@pytest.fixture(scope="module")
def shown():
    tab = shared_browser().open(AllowedHosts(), pinned=Pinned(), scripts=(VIEW_SCRIPT,), width=400, height=300)
    yield Shown(tab)
    tab.close()


def test_the_tree_names_roles_names_and_states(shown):
    shown.show("""
      <h1>Order</h1> <p>Two <b>large</b> cups</p>
      <label>Name <input id=name value="Ada"></label> <label for=pw>Secret</label> <input id=pw type=password value=abc>
      <input type=checkbox aria-label=Milk checked> <button disabled>Pay</button> <a href="#x">Help</a>
      <select><option>Tea<option selected>Coffee</select>
      <div style="display:none">unseen</div> <span hidden>unseen</span> <script>unseen</script>
      <div onclick="1">Open <i>me</i></div> <img alt="A cup" width=9 height=9>
      <svg width=50 height=20><circle cx=10 cy=10 r=5 fill=red></circle></svg>
    """)
    lines = shown.tree().splitlines()
    assert lines[:12] == [
        '[1] heading "Order"',
        '[2] text "Two large cups"',
        '[3] textbox "Name" value="Ada"',
        '[4] label "Secret"',
        '[5] textbox "Secret" value="***"',
        '[6] checkbox "Milk" checked',
        '[7] button "Pay" disabled',
        '[8] link "Help"',
        '[9] combobox value="Coffee"',
        '  [10] option "Tea"',
        '  [11] option "Coffee" selected',
        '[12] clickable "Open me"',
    ]
    assert lines[12] == '[13] img "A cup"' and lines[13].startswith('[14] circle color="red" at=') and len(lines) == 14


def test_frames_and_shadow_trees_are_seen_and_reached(shown):
    shown.show("""
      <p style="height:50px">Above</p><iframe srcdoc="<button onclick='this.textContent = &quot;Done&quot;'>Inner</button>"></iframe>
      <div id=host></div>
      <script>host.attachShadow({mode: 'open'}).innerHTML = '<button onclick="this.textContent = 42">Shadow</button>'</script>
    """)
    shown.tab.call(lambda page: page.wait_for_load_state())
    assert '[2] button "Inner"\n[3] button "Shadow"' in shown.tree()
    tree = shown.act("click('2')", "click('3')")
    assert '"Done"' in tree and '"42"' in tree


def test_references_follow_from_what_is_on_the_page(shown):
    shown.show("<button onclick='first.hidden = !first.hidden'>Toggle</button><button id=first>First</button><button>Last</button>")
    before = shown.view()
    after = shown.act("click('1')")
    assert after == '[1] button "Toggle" focused\n[2] button "Last"'
    shown.act("click('1')")
    shown.run("document.activeElement.blur()")
    assert shown.view() == before, "another way to the same page gives the same view, and the same digest"


def test_fields_are_filled_chosen_and_cleared(shown):
    shown.show("""
      <input aria-label=text value=old><input type=date aria-label=day><textarea aria-label=area></textarea>
      <select aria-label=one><option>a<option>b</select><select aria-label=many multiple><option>c<option>d<option>e</select>
      <input type=checkbox aria-label=box>
      <script>seen = []; for (const el of document.querySelectorAll('input, select, textarea'))
        for (const kind of ['input', 'change']) el.addEventListener(kind, () => seen.push(kind + ' ' + el.ariaLabel))</script>
    """)
    tree = shown.act(
        "fill('1', 'new')",
        "fill('2', '2024-02-29')",
        "fill('3', 'x y')",
        "select_option('4', 'b')",
        "select_option('7', ['c', 'e'])",
        "click('11')",
    )
    values = ['"text" value="new"', '"day" value="2024-02-29"', '"area" value="x y"', '"one" value="b"', '"c" selected', '"e" selected']
    assert all(value in tree for value in values) and '"d" selected' not in tree and '"box" checked' in tree
    assert [kind for kind in shown.run("seen") if kind.startswith("change")] == [
        *(f"change {name}" for name in ("text", "day", "area", "one", "many", "box")),
    ]
    assert 'value="' not in shown.act("clear('1')").splitlines()[0]
    assert shown.act("focus('1')", "keyboard_type('ab')", "press('1', 'Backspace')").startswith('[1] textbox "text" value="a" focused')


@pytest.mark.parametrize(
    ("action", "complaint"),
    [
        ("click('99')", r"no element \[99\]"),
        ("click('2')", "disabled"),
        ("fill('1', 'x')", "cannot be filled"),
        ("fill('3', 'tomorrow')", "cannot be filled"),
        ("select_option('1', 'x')", "no such option"),
        ("press('1', 'Enterr')", "no key 'Enterr'"),
        ("scroll(0, 100)", "nothing scrolls"),
        ("noop(99999999)", "write it as noop|wait between"),
    ],
)
def test_what_a_page_does_not_allow_is_said_and_changes_nothing(shown, action, complaint):
    shown.show("<button>Go</button><button disabled>No</button><input type=date>")
    before = shown.view()
    with pytest.raises(ActionError, match=complaint):
        shown.act(action)
    assert shown.view() == before


def test_the_mouse_drags_hovers_and_scrolls(shown):
    shown.show("""
      <div id=pad style="width:100px;height:100px" onclick="1"></div><div id=end style="width:40px;height:40px" onclick="1"></div>
      <div id=box style="height:50px;overflow:auto"><p style="height:500px" onclick="1">long</p></div>
      <script>moves = []; for (const kind of ['mousedown', 'mousemove', 'mouseup', 'mouseover'])
        document.addEventListener(kind, (e) => moves.push(kind + ' ' + e.target.id))</script>
    """)
    shown.act("drag_and_drop('1', '2')")
    moves = shown.run("moves")
    assert moves.index("mousedown pad") < moves.index("mousemove end") < moves.index("mouseup end")
    shown.act("hover('3')", "scroll(0, 60)")
    assert shown.run("box.scrollTop") >= 60


def test_what_cannot_be_seen_is_part_of_the_state(shown):
    shown.show("<p>Same</p><script>counter = 0</script>")
    digests = [shown.view().digest]
    for change in ("counter = 1", "setTimeout(() => 0, 70)", "getSelection().selectAllChildren(document.body)"):
        shown.run(f"(() => {{ {change} }})()")
        digests.append(shown.view().digest)
    assert len(set(digests)) == 4
    assert shown.view(Settings(ignored=("counter",))).digest == shown.view(Settings(ignored=("counter",))).digest != digests[-1]
