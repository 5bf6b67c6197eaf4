"""Definitions that users write in Markdown files: slash commands, skills, agents and output styles.

files    parses one file to a definition, and fills arguments into its text
library  where they are searched, which are trusted, and all definitions of a session, reloaded when files change

Definitions are text for the model and the menus. Permissions in them (`allowed-tools`) count only if `approved`. Never
here: running anything, and anything that knows the loop.
"""
