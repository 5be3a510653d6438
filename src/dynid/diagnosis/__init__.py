"""What residuals say about the cause: each diagnosis looks for one effect and names it, with its evidence."""
