"""Results for users that combine the upper rooms: they predict, plot and export."""
