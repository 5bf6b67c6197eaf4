"""Colours: from a theme file (`themes`) to the styles that blocks paint with (`palette`)."""
