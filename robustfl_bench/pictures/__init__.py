"""What pictures are drawn with: paper widths, fonts, styles, and a module for each kind of picture.

A picture knows names and numbers, nothing of runs. matplotlib and pandas are imported when one is drawn.
"""
