//! What became of an image.

/// How an attack on an image ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The clean image meets the goal; nothing was attacked.
    AlreadyWrong,
    /// The goal is reached.
    Broken,
    /// The goal is not reached: there is no distance.
    Failed,
    /// The image's label is its target: nothing was attacked, and there is no
    /// distance.
    LeftOut,
}

/// An attacked image, as measured by the caller of the attack.
#[derive(Clone, Debug, PartialEq)]
pub struct AttackOutcome {
    /// Number of the image in its data set.
    pub index: u32,
    /// Its class.
    pub label: u32,
    /// The class to reach, in a targeted attack.
    pub target: Option<u32>,
    /// Class predicted for the clean image.
    pub clean_predict: u32,
    /// The label is among the top k of the clean image.
    pub clean_correct: bool,
    /// Class predicted for the attacked image.
    pub adv_predict: u32,
    /// How it ended.
    pub status: Status,
    /// L2 norm of the perturbation; 0 if already wrong, `None` if failed or left out.
    pub l2: Option<f64>,
    /// Largest change of a pixel; 0 if already wrong, `None` if failed or left out.
    pub linf: Option<f64>,
    /// L2 norm of what the attack gave back, also if it failed: about `eps` for
    /// PGD, 0 for DDN. Only the paper's convention calls this a distance.
    pub last_l2: f64,
    /// Steps used.
    pub steps: u32,
    /// The number of steps, not the network, decides the distance.
    pub at_floor: bool,
    /// What the attack gave back: the adversarial image, unless failed.
    pub image: Vec<f32>,
}

impl AttackOutcome {
    /// The goal is met, by the attack or from the start.
    pub fn success(&self) -> bool {
        matches!(self.status, Status::AlreadyWrong | Status::Broken)
    }
}
