"""The whole conversation in one line-API widget.

widget        the Textual widget: frames, keys, mouse     items         all blocks, their lines, runs of quiet calls
stack         order, heights, and the rows in view        painting      rows as painted, and their source text
search        search                                      findbar       the search bar
"""
