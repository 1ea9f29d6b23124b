//! What an import found, in words.

use std::fmt;

/// What an import found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportReport {
    /// Parameter and the name of its tensor in the file.
    pub matched: Vec<(String, String)>,
    /// Parameters that the file does not have.
    pub missing: Vec<String>,
    /// Tensors of the file that the network does not need.
    pub left_over: Vec<String>,
    /// What was changed or dropped, in sentences.
    pub notes: Vec<String>,
}

impl fmt::Display for ImportReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} tensors matched", self.matched.len())?;
        for (what, names) in [("missing", &self.missing), ("left over", &self.left_over)] {
            if !names.is_empty() {
                write!(f, ", {} {what}: {}", names.len(), some(names))?;
            }
        }
        for note in &self.notes {
            write!(f, "\n{note}")?;
        }
        Ok(())
    }
}

/// The first few of a list.
pub(crate) fn some<T: fmt::Display>(items: &[T]) -> String {
    let mut text: Vec<String> = items.iter().take(4).map(ToString::to_string).collect();
    if items.len() > text.len() {
        text.push(format!("... ({} more)", items.len() - text.len()));
    }
    text.join(", ")
}
