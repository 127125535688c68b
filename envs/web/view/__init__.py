"""What an agent sees of a page and does to it: an accessibility tree with references, and BrowserGym's actions."""

from envs.web.view.actions import ActionError, WebAction, parse
from envs.web.view.hands import Mouse, carry_out
from envs.web.view.page_view import OBSERVE, VIEW_SCRIPT, PageView, Settings, quoted_words

__all__ = ["OBSERVE", "VIEW_SCRIPT", "ActionError", "Mouse", "PageView", "Settings", "WebAction", "carry_out", "parse", "quoted_words"]
