"""The arena: every rule under every attack in one fixed protocol, and the table that says which rule holds out.

``track``      the runs of a protocol, by rule, partition and attack
``tuned``      the same of rules that are tuned in each panel
``panels``     the scores of the rules in each partition with each number of attackers
``order``      the rules' order, which can be told apart, and how alike the orders of seeds and sizes are
``checks``     what a rule needs and depends on: measured, not declared
``needs``      the same for the rules in a table of runs
``conditions`` under which conditions scores hold, what was not tried, and reasons to doubt a worst case
``rows``       rows of kept files, and numbers in groups
``words``      the sentences and tables, from ``templates/``
``page``       all of these as tables, and the scores as pictures
``views``      further questions that the runs answer
``answers``    what the arena shows, in sentences and pages, and what others entered
``decision``   which rule to use, from a file with all cases
``additions``  what an attack from outside adds to the list
"""
