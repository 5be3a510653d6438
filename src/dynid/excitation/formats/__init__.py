"""Forms of a motion that controllers and programs take, a file each; `excitation/export.py` names them."""
