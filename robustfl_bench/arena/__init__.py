"""The arena: every rule under every attack in one fixed protocol, and the table that says which rule holds out.

``track``     which runs belong to a protocol, and to which rule, partition and attack of it
``scores``    what they say of each rule
``checks``    what a rule needs, and what it depends on: tried, not declared
``page``      both as tables
``claims``    what papers say of their rules, judged
``picture``   the scores drawn
"""
