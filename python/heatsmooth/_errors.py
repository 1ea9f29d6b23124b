"""What can go wrong, with what to do about it."""

from __future__ import annotations


class HeatsmoothError(Exception):
    """Any error of the library. ``hint`` says what to do next."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\nhint: {self.hint}"


class SettingError(HeatsmoothError, ValueError):
    """A keyword or an argument that makes no sense."""


class DataError(HeatsmoothError, ValueError):
    """Images that cannot be read or used."""


class ModelError(HeatsmoothError, ValueError):
    """A model that cannot be read or used."""


class HeatsmoothWarning(UserWarning):
    """Something a careful reader of the result must know."""
