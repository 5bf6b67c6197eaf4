"""One submission. `run_loop` runs the stages of an iteration, `decide` chooses to continue or stop;
`agent/loop_state.py` holds everything that varies between iterations.
"""
