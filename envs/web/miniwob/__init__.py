"""MiniWoB++: small tasks in web pages, as the wheel `miniwob` ships them."""
