"""What the arena shows: which rule to use, findings, papers' claims, and what others entered.

``recommend``   which rule to use in a panel
``findings``    what the arena shows, in sentences, and the same across panels, for the first page
``claims``      the papers' claims about their rules, judged
``entries``     rules that somebody ran in a protocol, in a folder each
``rounding``    how much of a result is rounding
"""
