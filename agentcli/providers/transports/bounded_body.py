"""A response body that ends after a byte limit, whatever the server sends. Imports httpx2."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2


class BoundedStream(httpx2.AsyncByteStream):
    def __init__(self, whole: httpx2.AsyncByteStream | httpx2.SyncByteStream, most: int) -> None:
        assert isinstance(whole, httpx2.AsyncByteStream)
        self._whole = whole
        self._most = most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = self._most
        async for chunk in self._whole:
            yield chunk[:left]
            left -= len(chunk)
            if left <= 0:
                return

    async def aclose(self) -> None:
        await self._whole.aclose()
