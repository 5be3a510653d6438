"""What the columns of a stranger's log mean: presets with sources, names, and physics; the experiment file proposed."""
