"""What users define in Markdown files: slash commands, skills, agents and output styles.

frontmatter  the header of such a file          folders  where they are looked for, and which of them are trusted
files        one file as a typed definition     library  all definitions of a session, read again when files change

Definitions are text for the model and the menus. Rights in them (`allowed-tools`) count only if `approved`. Never here:
running anything, and anything that knows the loop.
"""
