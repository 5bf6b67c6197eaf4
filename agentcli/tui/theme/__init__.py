"""Colours: from a theme file to the styles that blocks paint with.

themes    files -> themes             dressing  which one is on, and why
shades    few colours -> all shades   palette   the styles, by meaning
colours   colours as values
"""
