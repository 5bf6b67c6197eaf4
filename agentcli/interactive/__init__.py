"""What the app and plain mode share, without a library of either.

driver, view          the session driver, and the protocol that a front end implements for it
submission            turns a sent draft into a submission
waiting_prompts       drafts sent while a submission runs
pending_questions     questions to the user, one at a time
wording               events in words
draft, drafts         what stands in the prompt, as a value, and on disk in case of a crash
history               what was sent before, on disk per project
completion, sources   what could be completed at the cursor, and with what
editor                which editor is the user's, and the file that it gets
"""
