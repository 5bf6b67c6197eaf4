"""Colours: from a theme file to the styles that blocks paint with.

themes    files -> themes             dressing  chooses the active theme
shades    few colours -> all shades   palette   the styles, by meaning
colours   colours as values
"""
