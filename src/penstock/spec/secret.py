"""Addresses that may hold a password."""

from __future__ import annotations

import re

_HIDDEN = "***"
_BARE = re.compile(r"[\w.,:-]*/?")


class Secret(str):
    """An address that cannot be printed whole: str, repr, formatting, logging leave the password out.

    It is a str, so that drivers, which take its characters, connect with all of it.
    """

    __slots__ = ()

    def __str__(self) -> str:
        return _shown(str.__str__(self))

    def __repr__(self) -> str:
        return repr(str(self))

    def __format__(self, form: str) -> str:
        return format(str(self), form)


def _shown(whole: str) -> str:
    scheme, mark, rest = whole.partition("://")
    if not mark:
        return whole if _BARE.fullmatch(whole) else _HIDDEN
    login, at, place = rest.rpartition("@")
    user, colon, _ = login.partition(":")
    # What follows a question mark may be a password, too.
    return f"{scheme}://{user}{f':{_HIDDEN}' if colon else ''}{at}{place.partition('?')[0]}"
