//! A folder for readers that want files, in memory where there is such a place.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The process's own folder; each run of a target overwrites its files.
pub fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let memory = Path::new("/dev/shm");
        let parent = if memory.is_dir() {
            memory.to_path_buf()
        } else {
            std::env::temp_dir()
        };
        let folder = parent.join(format!("heatsmooth-fuzz-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("scratch folder");
        folder
    })
}
