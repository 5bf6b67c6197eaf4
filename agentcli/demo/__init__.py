"""Layer 4: `agentcli demo`, a tour without a key and without a network. Only the model's side is a script.

project    the throw-away folder: a small package with a bug, and everything else the demo would write
words      what the script says
director   pure: from a request to the reply, whatever the person did before
billing    pure: what the true API would bill for a request, with its prompt cache
server     the Messages API on 127.0.0.1 that asks the director and streams the reply at a reader's pace
tour       pure: the stops of the tour, and which is next
player     plays the tour without a terminal
"""

FIRST_PROMPT = "Find out why the test fails; fix it"
"""What Enter sends first. Here, where looking it up imports nothing: it stands in the box before anything is loaded."""
