"""Renderers of what the transcript shows, one file per kind of item. They are not widgets: items in, lines out."""
