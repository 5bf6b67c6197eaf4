"""Replay a session: run the real loop on its recorded inputs and compare what it records now.

tape        the recorded lines, compared one by one with those that the replay writes
replies     what stands in for the model
inputs      what stands in for tools, hooks, attachments and the clock
process     the session of one recorded process
verify      the whole session, and the result
compare     the same with other instructions or settings
"""
