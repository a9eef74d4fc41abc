"""The Chromium that pages are tested in: the system's, or one that its package manager installs.

    python -m tests.chromium

has one installed if this user may, and says in a line what is missing if not.
"""

from __future__ import annotations

import shutil

from penstock.toolchain.packages import Choices, example, install

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_INSTALLERS: Choices = {
    "apt-get": ("install -y --no-install-recommends chromium",),
    "dnf": ("install -y chromium",),
    "apk": ("add chromium",),
    "brew": ("install --cask chromium",),
}
MISSING = f"no Chromium, so the page is not tested: {example(_INSTALLERS)}"


def find() -> str | None:
    return next(filter(None, map(shutil.which, _NAMES)), None)


if __name__ == "__main__" and find() is None and not install("Chromium", _INSTALLERS, print):
    print(MISSING)  # noqa: T201
