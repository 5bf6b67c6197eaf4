"""`agentcli demo`: a tour without a key and without a network. Only the model is scripted.

project    the temporary folder: a small package with a bug, and everything else that the demo writes
words      the texts of the script
director   chooses the reply to a request and plays it in place of a model
tour       the stops of the tour and their order; plays it without a terminal
"""

FIRST_PROMPT = "Find out why the test fails; fix it"
"""The first prompt. Defined here so that it can be shown before anything heavy is imported."""
