"""The whole conversation in one line-API widget.

widget        the Textual widget: frames, keys, mouse     items         all blocks, their lines, runs of quiet calls
stack         order and heights; rows in view, painted    search        search
findbar       the search bar
"""
