"""Layer 0: values and basic mechanics. Standard library only; imports no other package of agentcli.

events, messages, errors, usage   the vocabulary of the whole program
text/                             formatting, searching, cleaning and comparing text
files/                            bounded reads, paths resolved without links, cached listings
processes/                        starting programs, finding them, ending what they leave
"""
