"""What the app and plain mode share, without a library of either.

driver, view          the session driver, and the protocol that a front end implements for it
submission            turns a sent draft into a submission; drafts and questions that wait
questions/            what is asked, with its choices and what each answer means
wording               events in words
drafts, editor        the text of the prompt with its chips, saved drafts, the prompt history; the user's editor
completion            what could be completed at the cursor, and the sources of candidates
login/                connecting a model: the dialog as values, its work, switching the provider
"""
