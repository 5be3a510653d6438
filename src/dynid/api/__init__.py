"""What users call and hold where it reaches across the upper rooms: results that predict, plot and export."""
