"""Colours: from a theme file to the styles that blocks paint with.

themes        files -> themes             active_theme   the theme in use
shades        few colours -> all shades   palette        the styles, by meaning
colours       colours as values
"""
