"""The whole conversation in one line-API widget.

widget        the Textual widget: frames, keys, mouse     items         all blocks and the operations on them
stack         order and heights                           view          visible rows, following the end
painting      rows as painted, and their source text      folds         runs of quiet calls in one line
search        search                                      findbar       the search bar
"""
