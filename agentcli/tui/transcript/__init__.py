"""The whole conversation in one line-API widget.

widget        what Textual sees: frames, keys, mouse      items         all blocks and what happens to them
stack         order and heights                           view          what is in sight, following the end
layouts       lines, made when needed, bounded            painting      rows as they go to the screen
finding       search                                      findbar       the line to search with
copying       from cells to the text they came from       compositing   a shorter way to the bytes of a change
"""
