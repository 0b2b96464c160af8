"""Plugins of installed packages: found without an import, loaded, checked; torch.compile's backends too."""
