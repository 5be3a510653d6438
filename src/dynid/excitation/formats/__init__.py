"""Forms of a motion that controllers and programs take, a file each; `excitation/settings.py` names them."""
