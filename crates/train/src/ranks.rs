//! What several ranks do together in a run, besides summing up gradients.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use network::{Collective, NormSharing};
use settings::{SettingError, choices};

use crate::error::TrainError;

choices! {
    /// By which images batch norms normalise where several ranks train one network.
    pub enum RankNorms {
        /// By those of all ranks, as a single process would.
        Synchronised = "synchronised",
        /// Every rank by its own; the running statistics are means over the ranks.
        PerRank = "per-rank",
    }
}

impl RankNorms {
    /// What a network shares.
    pub(crate) fn sharing(self, ranks: &Arc<dyn Collective>) -> NormSharing {
        match (ranks.size(), self) {
            (1, _) => NormSharing::Alone,
            (_, Self::Synchronised) => NormSharing::Statistics(Arc::clone(ranks)),
            (_, Self::PerRank) => NormSharing::Running(Arc::clone(ranks)),
        }
    }
}

/// Refuses batches that are too small to be shared.
pub(crate) fn check_batch(ranks: &dyn Collective, batch_size: usize) -> Result<(), SettingError> {
    let least = data::BatchPart::FEWEST * ranks.size();
    if batch_size >= least {
        return Ok(());
    }
    let expected = format!(
        "at least {least}: two images for each of {} ranks",
        ranks.size()
    );
    Err(SettingError::value("batch-size", batch_size, expected))
}

/// The bytes of a file, if there is one, as rank 0 sees it: other ranks need not see
/// the folder.
pub(crate) fn read(
    ranks: &dyn Collective,
    file: &Path,
    read: impl FnOnce(&Path) -> Result<Vec<u8>, TrainError>,
) -> Result<Option<Vec<u8>>, TrainError> {
    let mut bytes = Vec::new();
    if ranks.rank() == 0 && file.exists() {
        bytes = read(file)?;
        bytes.push(1);
    }
    ranks.broadcast(&mut bytes)?;
    // The last byte says that there is a file.
    Ok(bytes.pop().map(|_| bytes))
}

/// This rank's part of some images.
pub(crate) fn part(ranks: &dyn Collective, images: usize) -> Range<usize> {
    let (rank, size) = (ranks.rank(), ranks.size());
    rank * images / size..(rank + 1) * images / size
}
