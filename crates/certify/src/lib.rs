//! Certification: statistics, PREDICT, CERTIFY, anytime certificates, L-bound, fidelity.

pub mod statistics;
