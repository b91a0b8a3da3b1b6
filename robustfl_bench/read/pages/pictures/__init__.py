"""Pictures: paper widths, fonts, styles, and a module for each kind of picture. A picture takes names and numbers, not
runs. matplotlib and pandas are imported when one is drawn.
"""
