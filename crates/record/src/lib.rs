//! Records of runs and results: schemas, crash-safe writing, reading.
