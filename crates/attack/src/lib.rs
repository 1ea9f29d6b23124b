//! L2 attacks: PGD and DDN, their criteria and sanity checks.
