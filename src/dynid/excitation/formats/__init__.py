"""Forms of a motion that controllers and programs take, a file each; `Format` in `excitation/export.py` names them."""
