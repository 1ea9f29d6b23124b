//! Training: SGD, schedules, checkpoints and the methods.
