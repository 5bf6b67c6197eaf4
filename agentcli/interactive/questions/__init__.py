"""Questions to the user as data: what is asked, which choices there are, and what an answer means.

model        the values
kinds        the question for each event that waits for an answer, and for an untrusted folder
permission   questions about tool calls, and the rules that "always allow" can save

A front end renders a question in its own way and hands back an `Answer`; it adds no question, choice or meaning.
"""
