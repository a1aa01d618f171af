"""What every other package stands on: errors, findings, the doors to disk, processes and network."""
