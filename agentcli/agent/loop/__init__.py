"""One submission:
`run_loop` shows the stages of an iteration, `decide` chooses to continue or stop, `state` is all that varies.
"""
