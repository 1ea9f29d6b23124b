//! Data sets: fetch, verify, decode, augment, batch.
