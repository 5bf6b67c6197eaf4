"""Code that the app and plain mode share. Imports neither Textual nor prompt_toolkit nor rich.

driver, view          the session driver, and the protocol that a front end implements for it
submission            turns a sent draft into a submission
waiting_prompts       drafts sent while a submission runs
pending_questions     questions to the user, one at a time
partial_output        whether an interruption leaves partial output
wording               the text shown for each event
rule_choices          the rules that "always allow" offers
sampling_price        the price line of an MCP sampling request
draft, drafts         the prompt's content as a value, and on disk for a crash
history               sent prompts, on disk per project
completion, sources   completions at the cursor, and where they come from
late_completion, resource_completion   completions by MCP servers
welcome, connecting, reaching          connecting a model: the dialog, its work, the connection
editor                the user's editor
modes                 the permission modes of Shift+Tab
"""
