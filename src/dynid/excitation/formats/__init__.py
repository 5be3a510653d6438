"""File formats of motions for controllers and programs, one file each; `excitation/settings.py` names them."""
