"""What a config can choose: one room for each option group, named as in ``conf/``, with a base class and a file for
each option. A rule imports its base class and ``numerics``, never another rule."""
