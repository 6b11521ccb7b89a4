"""Floor 0: words and rules shared by every part. Hot: standard library only, Python 3.9."""
