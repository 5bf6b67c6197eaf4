"""Completion of file names before and after there is an engine to list them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentcli.interactive.sources import FoundFiles, IndexedFiles


class LateFiles:
    def __init__(self) -> None:
        self._source: IndexedFiles | None = None

    async def use(self, source: IndexedFiles) -> None:
        before, self._source = self._source, source
        if before is not None:
            await before.aclose()

    async def files(self, query: str, limit: int) -> FoundFiles:
        from agentcli.interactive.sources import FoundFiles

        return await self._source.files(query, limit) if self._source is not None else FoundFiles([])

    def begin(self) -> None:
        if self._source is not None:
            self._source.begin()

    async def aclose(self) -> None:
        if self._source is not None:
            await self._source.aclose()
