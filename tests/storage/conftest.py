from __future__ import annotations

from tests.savepoint.conftest import other_disk

__all__ = ["other_disk"]
