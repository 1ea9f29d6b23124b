//! Certification: statistics, PREDICT, CERTIFY, anytime certificates, L-bound, fidelity.
