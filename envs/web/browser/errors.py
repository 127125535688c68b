"""What can go wrong with a browser: it is missing, which a user can mend, or a call to it failed, which ends a rollout."""

from envs.errors import MissingNeedError


class BrowserMissingError(MissingNeedError):
    """There is no browser to start, or it does not start."""


class BrowserError(RuntimeError):
    """The browser refused or failed a call."""


class BrowserLostError(BrowserError):
    """The tab is gone: it was closed, its page crashed, or its browser was ended or belongs to another process."""
