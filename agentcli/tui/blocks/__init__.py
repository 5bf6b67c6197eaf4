"""Renderers of transcript items, one file per kind of item. They are not widgets: they turn items into lines.

`markdown/` lays out Markdown and code, `diff/` lays out diffs.
"""
