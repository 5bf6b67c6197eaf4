"""What a request shows of the conversation: the view of the log, estimates, edits of old content, and steps that plan
them. Pure: no model is called and no file is read, except where a caller passes a function for it."""
