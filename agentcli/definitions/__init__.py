"""Definitions that users write in Markdown files: slash commands, skills, agents and output styles.

frontmatter  parses the header of such a file      folders  where they are searched, and which are trusted
files        parses one file to a definition       library  all definitions of a session, reloaded when files change

Definitions are text for the model and the menus. Permissions in them (`allowed-tools`) count only if `approved`. Never
here: running anything, and anything that knows the loop.
"""
