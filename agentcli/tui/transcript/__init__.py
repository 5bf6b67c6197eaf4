"""The whole conversation in one line-API widget.

widget        the Textual widget: frames, keys, mouse     items         all blocks and the operations on them
stack         order and heights                           view          visible rows, following the end
layouts       bounded cache of laid out lines             painting      rows as painted on the screen
search        search                                      findbar       the search bar
copying       from cells to source text                   compositing   faster compositor for changed rows
"""
