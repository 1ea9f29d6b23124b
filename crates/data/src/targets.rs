//! What is known about each image: a class, real values, or nothing.

/// What a network may learn to predict of each image.
#[derive(Clone, Debug, PartialEq)]
pub enum Targets {
    /// One class each; label k means the k-th name.
    Classes {
        /// Names of the classes.
        names: Vec<String>,
        /// One label an image.
        labels: Vec<u32>,
    },
    /// As many finite real values each as there are names.
    Values {
        /// What the values are.
        names: Vec<String>,
        /// Image by image.
        values: Vec<f32>,
    },
    /// Nothing: images without labels.
    Unknown,
}

impl Targets {
    /// Classes by their names.
    pub(crate) fn classes(
        names: impl IntoIterator<Item = impl Into<String>>,
        labels: Vec<u32>,
    ) -> Self {
        let names = names.into_iter().map(Into::into).collect();
        Self::Classes { names, labels }
    }

    /// What they are, in words.
    pub fn in_words(&self) -> &'static str {
        match self {
            Self::Classes { .. } => "classes",
            Self::Values { .. } => "real values",
            Self::Unknown => "images without labels",
        }
    }
}
