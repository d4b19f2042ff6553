"""From audio files and texts of any length to transcripts: cutting, word times, the language spoken, file formats."""
