"""The arena: every rule under every attack in one fixed protocol, and the table that says which rule holds out.

``track``     the runs of a protocol, by rule, partition and attack
``scores``    the score of each rule
``checks``    what a rule needs and depends on: measured, not declared
``page``      both as tables
``claims``    the papers' claims about their rules, judged
``picture``   the scores as pictures
"""
