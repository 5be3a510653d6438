"""The result of an identification: verdict, validation, provenance, and the folder that holds it."""
