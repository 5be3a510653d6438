"""A local web page over dynid's commands: projects of files, jobs, and the pages that show them."""
