//! Files from the network, with limits on size and time.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::time::Duration;

use super::Observer;
use crate::DataError;

/// Downloads `url` to the file `path`, refusing more than `limit` bytes.
pub(super) fn download(
    url: &str,
    path: &Path,
    limit: u64,
    observer: &dyn Observer,
) -> Result<(), DataError> {
    let failed = |reason: String| DataError::Download {
        url: url.into(),
        reason,
    };
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .timeout_connect(Some(Duration::from_secs(20)))
        .timeout_recv_response(Some(Duration::from_secs(60)))
        .timeout_recv_body(Some(Duration::from_secs(3600)))
        .user_agent(concat!("heatsmooth/", env!("CARGO_PKG_VERSION")))
        .build()
        .into();
    let response = agent
        .get(url)
        .call()
        .map_err(|error| failed(error.to_string()))?;
    let body = response.into_body();
    let length = body.content_length();
    if let Some(length) = length.filter(|&length| length > limit) {
        return Err(failed(format!(
            "expected at most {limit} bytes, got {length}"
        )));
    }
    observer.begin(url, length);
    copy(body.into_reader(), path, limit, observer, failed)
}

/// Copies a stream to a file, reporting progress.
fn copy(
    mut stream: impl Read,
    path: &Path,
    limit: u64,
    observer: &dyn Observer,
    failed: impl Fn(String) -> DataError,
) -> Result<(), DataError> {
    let mut file = File::create(path).map_err(DataError::io("create", path))?;
    let mut buffer = vec![0; 1 << 16];
    let mut total = 0;
    loop {
        let read = stream
            .read(&mut buffer)
            .map_err(|error| failed(error.to_string()))?;
        if read == 0 {
            return Ok(());
        }
        total += read as u64;
        if total > limit {
            return Err(failed(format!("expected at most {limit} bytes, got more")));
        }
        file.write_all(&buffer[..read])
            .map_err(DataError::io("write", path))?;
        observer.advance(read as u64);
    }
}

/// Copies a local file of a data set.
pub(super) fn copy_file(
    dataset: &str,
    from: &Path,
    to: &Path,
    limit: u64,
    observer: &dyn Observer,
) -> Result<(), DataError> {
    let file = crate::files::open(dataset, from)?;
    let length = file.metadata().map(|data| data.len()).ok();
    observer.begin(&from.display().to_string(), length);
    copy(file, to, limit, observer, |what| {
        DataError::format(from, what)
    })
}
