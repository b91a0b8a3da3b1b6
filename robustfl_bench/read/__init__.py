"""What finished runs say: ``runs`` is the table of runs with its statistics, ``tables`` sets them beside published
numbers, ``pages`` draws pictures and reports. It only reads."""
