"""Reading sound: files, streams, resampling and segments."""
