//! A CSV file of paths and real values: `path,steering` and a line for each image.

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::dataset::About;
use crate::folder::{Folder, Paths};
use crate::source::{Encoded, Files as _};
use crate::{Augment, DataError, Dataset, Split, Targets, View, files};

/// What a file says.
#[derive(Debug, PartialEq)]
pub(crate) struct Listed {
    /// What the values are called.
    pub names: Vec<String>,
    pub paths: Vec<PathBuf>,
    /// Image by image, all finite.
    pub values: Vec<f32>,
}

/// Opens the images that a file lists; their paths start at its folder. They are not
/// varied in training: whether a mirrored or shifted image has the same values,
/// nobody knows here.
pub(crate) fn open(
    name: &str,
    file: &Path,
    split: Split,
    view: View,
    whole: bool,
) -> Result<Dataset, DataError> {
    view.check()?;
    let bytes = std::fs::read(file).map_err(DataError::io("read", file))?;
    let Listed {
        names,
        paths,
        values,
    } = parse(&bytes, file)?;
    let mut folder = Folder {
        root: file.parent().map(Path::to_path_buf).unwrap_or_default(),
        paths: Paths::default(),
        ignored: 0,
    };
    paths.iter().for_each(|path| folder.paths.push(path));
    for index in 0..folder.len() {
        let path = folder.place(index);
        if !path.is_file() {
            // The first line names the columns.
            let what = format!("{} is not a file", path.display());
            return Err(wrong(file, index as u64 + 2, what));
        }
    }
    let encoded = Encoded::new(Box::new(folder), view);
    let images = encoded.hash()?;
    let about = About {
        name: name.into(),
        split,
        shape: view.shape(),
        hash: files::split_hash([
            ("images", images.as_str()),
            ("values", files::hex(Sha256::digest(&bytes)).as_str()),
        ]),
        augment: Augment::None,
        whole,
    };
    let targets = Targets::Values { names, values };
    Ok(Dataset::new(about, targets, Box::new(encoded), u8::MAX))
}

fn wrong(path: &Path, line: u64, what: impl Into<String>) -> DataError {
    DataError::Csv {
        path: path.to_path_buf(),
        line,
        what: what.into(),
    }
}

/// Reads a file's content; `file` is named in errors.
pub(crate) fn parse(bytes: &[u8], file: &Path) -> Result<Listed, DataError> {
    let mut reader = csv::ReaderBuilder::new()
        .trim(csv::Trim::All)
        .from_reader(bytes);
    let unreadable = |error: csv::Error| {
        let line = error.position().map_or(1, csv::Position::line);
        let what = match error.kind() {
            csv::ErrorKind::UnequalLengths {
                expected_len, len, ..
            } => format!("expected {expected_len} columns, found {len}"),
            csv::ErrorKind::Utf8 { .. } => "it is not text (UTF-8)".into(),
            _ => error.to_string(),
        };
        wrong(file, line, what)
    };
    let head = reader.headers().map_err(unreadable)?.clone();
    let names: Vec<String> = head.iter().skip(1).map(str::to_owned).collect();
    if names.is_empty() {
        let what = format!("expected a path and at least one value, found {:?}", &head);
        return Err(wrong(file, 1, what.replace("StringRecord", "")));
    }
    if let Some(number) = names.iter().find(|name| name.parse::<f64>().is_ok()) {
        let what = format!("expected the names of the columns, found the number {number}");
        return Err(wrong(file, 1, what));
    }
    let doubled = |at: usize| names[..at].contains(&names[at]);
    if let Some(at) = (0..names.len()).find(|&at| names[at].is_empty() || doubled(at)) {
        let what = format!(
            "column {} is called {:?}: names must differ",
            at + 2,
            names[at]
        );
        return Err(wrong(file, 1, what));
    }
    let (mut paths, mut values) = (Vec::new(), Vec::new());
    for record in reader.records() {
        let record = record.map_err(unreadable)?;
        let line = record.position().map_or(0, csv::Position::line);
        if record[0].is_empty() {
            return Err(wrong(file, line, "expected a path, found nothing"));
        }
        paths.push(PathBuf::from(&record[0]));
        for (name, text) in names.iter().zip(record.iter().skip(1)) {
            let value = text.parse::<f32>().ok().filter(|value| value.is_finite());
            values.push(value.ok_or_else(|| {
                let what = format!("{name} is {text:?}, expected a finite number");
                wrong(file, line, what)
            })?);
        }
    }
    if paths.is_empty() {
        return Err(wrong(file, 1, "it lists no images"));
    }
    Ok(Listed {
        names,
        paths,
        values,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Listed, String> {
        parse(text.as_bytes(), Path::new("values.csv")).map_err(|error| {
            assert!(error.hint().is_some());
            error.to_string()
        })
    }

    #[test]
    fn a_line_is_a_path_and_its_values() {
        let listed = read("path,angle,\"speed, km/h\"\r\na/1.png,-1.5e1,3\n\"b, 2.png\", 0 ,4\n");
        let listed = listed.unwrap();
        assert_eq!(listed.names, ["angle", "speed, km/h"]);
        assert_eq!(listed.paths[1], Path::new("b, 2.png"));
        assert_eq!(listed.values, [-15.0, 3.0, 0.0, 4.0]);
    }

    #[test]
    fn nonsense_is_named_with_its_line() {
        for (text, expected) in [
            ("", "values.csv:1: expected a path and at least one value"),
            (
                "path\na.png\n",
                "values.csv:1: expected a path and at least",
            ),
            ("path,y\n", "values.csv:1: it lists no images"),
            (
                "a.png,0.5\n",
                "values.csv:1: expected the names of the columns",
            ),
            ("path,y,y\na.png,1,2\n", "names must differ"),
            ("path,y,\na.png,1,2\n", "names must differ"),
            ("path,y\na.png,1\nb.png,NaN\n", "values.csv:3: y is \"NaN\""),
            ("path,y\na.png,inf\n", "values.csv:2: y is \"inf\""),
            ("path,y\na.png,1e99\n", "values.csv:2: y is \"1e99\""),
            ("path,y\na.png,cat\n", "values.csv:2: y is \"cat\""),
            ("path,y\na.png,\n", "values.csv:2: y is \"\""),
            ("path,y\na.png,1,2\n", "expected 2 columns, found 3"),
            ("path,y\na.png\n", "expected 2 columns, found 1"),
            ("path,y\n,1\n", "expected a path, found nothing"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(expected), "{text:?}: {error}");
        }
        let binary = parse(b"path,y\n\xff\xfe,1\n", Path::new("v")).unwrap_err();
        assert!(binary.to_string().contains("not text"), "{binary}");
    }
}
