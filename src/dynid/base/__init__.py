"""The ground: errors, diagnostics, locked arrays, units, checked TOML, files written whole or not at all."""
