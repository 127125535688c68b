"""One headless Chromium for all environments of a process: cheap tabs, deadlines that hold, no network but what is allowed.

```python
from envs.web.browser import AllowedHosts, shared_browser

tab = shared_browser().open(AllowedHosts.parse(["127.0.0.1:8000"]))
tab.call(lambda page: page.goto("http://127.0.0.1:8000/"))
text = tab.call(lambda page: page.inner_text("body"))
tab.close()
```
"""

from envs.web.browser.browser import Browser, shared_browser
from envs.web.browser.errors import BrowserError, BrowserLostError, BrowserMissingError
from envs.web.browser.hosts import AllowedHosts
from envs.web.browser.tab import Tab

__all__ = ["AllowedHosts", "Browser", "BrowserError", "BrowserLostError", "BrowserMissingError", "Tab", "shared_browser"]
