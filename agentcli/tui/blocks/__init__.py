"""Renderers of transcript items: they turn items into lines and are not widgets. `make` has the block of each item."""
