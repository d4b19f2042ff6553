"""Everything that reads and writes sound; training and transcription use the same reader. Knows no nets."""
