"""One submission. `run_loop` shows the stages of an iteration, `decide` chooses to continue or stop, and `state` is all
that varies between iterations.
"""
