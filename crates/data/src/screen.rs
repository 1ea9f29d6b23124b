//! Images that are not what they should be: which, how many, and what becomes of them.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use settings::choices;

use crate::decode::{Encoding, decode_bytes, look};
use crate::source::{BLOCK, Encoded, Files, Source as _};
use crate::{DataError, remembered};

choices! {
    /// What becomes of image files that cannot be decoded.
    pub enum BrokenImages {
        /// The first one that is read is an error.
        Refuse = "refuse",
        /// All images are decoded once beforehand, and those that cannot be are left out.
        Skip = "skip",
    }
}

choices! {
    /// What becomes of image files that can be decoded but are not what their name or
    /// format should be: CMYK, 16 bits, another format or another class than the name
    /// says.
    pub enum OddImages {
        /// They are converted to 8 bits of RGB, as Pillow would.
        Convert = "convert",
        /// They are left out.
        Skip = "skip",
        /// They are an error.
        Refuse = "refuse",
    }
}

#[expect(clippy::derivable_impls, reason = "a macro writes the type")]
impl Default for BrokenImages {
    fn default() -> Self {
        Self::Refuse
    }
}

#[expect(clippy::derivable_impls, reason = "a macro writes the type")]
impl Default for OddImages {
    fn default() -> Self {
        Self::Convert
    }
}

/// What is wrong with an image file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Fault {
    /// It cannot be decoded.
    Broken(String),
    /// A JPEG of four inks.
    Cmyk,
    /// A PNG of 16 bits a sample.
    SixteenBits,
    /// A PNG whose name ends as a JPEG's, or the other way round.
    OtherFormat,
    /// Its name begins with another synset than the class it stands in.
    OtherClass(String),
}

impl Fault {
    fn word(&self) -> &'static str {
        match self {
            Self::Broken(_) => "broken",
            Self::Cmyk => "CMYK",
            Self::SixteenBits => "of 16 bits",
            Self::OtherFormat => "of another format than their names say",
            Self::OtherClass(_) => "of another class than their names say",
        }
    }

    pub(crate) fn is_broken(&self) -> bool {
        matches!(self, Self::Broken(_))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Broken(reason) => write!(f, "broken: {reason}"),
            Self::Cmyk => f.write_str("CMYK"),
            Self::SixteenBits => f.write_str("16 bits a sample"),
            Self::OtherFormat => f.write_str("of another format than its name says"),
            Self::OtherClass(class) => write!(f, "named as one of {class}"),
        }
    }
}

/// An image file that is not what it should be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Its number among all files of the split.
    pub index: usize,
    /// Where it is.
    pub place: PathBuf,
    /// What is wrong with it.
    pub fault: Fault,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place.display(), self.fault)
    }
}

/// So many are named one by one.
const TOLD: usize = 5;

/// How many images of which kind, and the first few by name.
pub(crate) fn summary(findings: &[Finding]) -> Option<String> {
    let mut counts = BTreeMap::new();
    for finding in findings {
        *counts.entry(finding.fault.word()).or_insert(0) += 1;
    }
    let counts: Vec<String> = counts
        .iter()
        .map(|(word, n)| format!("{n} {word}"))
        .collect();
    let mut named: Vec<String> = findings
        .iter()
        .take(TOLD)
        .map(ToString::to_string)
        .collect();
    if findings.len() > TOLD {
        named.push(format!("and {} more", findings.len() - TOLD));
    }
    (!findings.is_empty()).then(|| {
        format!(
            "images that are not what they should be: {} ({})",
            counts.join(", "),
            named.join("; ")
        )
    })
}

/// A WordNet id, such as `n01440764`, in front of a name.
pub(crate) fn synset(name: &str) -> Option<&str> {
    let id = name.get(..9)?;
    let rest = id.strip_prefix('n')?;
    rest.bytes().all(|byte| byte.is_ascii_digit()).then_some(id)
}

/// What is wrong with a file, if anything; `whole`: by decoding it.
fn examine(files: &dyn Files, index: usize, whole: bool) -> Result<Option<Finding>, DataError> {
    let fault = match files.bytes(index) {
        Ok(bytes) => fault(&bytes, &files.name(index), whole),
        Err(error @ (DataError::Io { .. } | DataError::NoImageFile { .. })) => {
            Some(Fault::Broken(error.to_string()))
        }
        Err(error) => return Err(error),
    };
    Ok(fault.map(|fault| Finding {
        index,
        place: files.place(index),
        fault,
    }))
}

fn fault(bytes: &[u8], name: &[u8], whole: bool) -> Option<Fault> {
    let broken = |error: crate::ImageError| Some(Fault::Broken(error.to_string()));
    let Encoding {
        jpeg,
        cmyk,
        sixteen,
    } = match look(bytes) {
        Ok(encoding) => encoding,
        Err(error) => return broken(error),
    };
    if whole && let Err(error) = decode_bytes(bytes, 3) {
        return broken(error);
    }
    let name = String::from_utf8_lossy(name);
    let ending = name
        .rsplit('.')
        .next()
        .unwrap_or_default()
        .to_ascii_lowercase();
    let named_png = ending == "png";
    let mut parts = name.rsplit('/');
    let file = parts.next().and_then(synset);
    let class = parts.next().filter(|class| synset(class) == Some(class));
    match (file, class) {
        _ if cmyk => Some(Fault::Cmyk),
        _ if sixteen => Some(Fault::SixteenBits),
        _ if jpeg == named_png => Some(Fault::OtherFormat),
        (Some(file), Some(class)) if file != class => Some(Fault::OtherClass(file.into())),
        _ => None,
    }
}

/// Looks at all images that are used.
pub(crate) fn examine_all(encoded: &Encoded, whole: bool) -> Result<Vec<Finding>, DataError> {
    let mut findings = Vec::new();
    for begin in (0..encoded.len()).step_by(BLOCK) {
        let block = begin..(begin + BLOCK).min(encoded.len());
        let found = block.into_par_iter().map(|index| {
            let file = encoded.file(index);
            examine(&*encoded.files, file, whole)
        });
        let found = found.collect::<Result<Vec<_>, DataError>>()?;
        findings.extend(found.into_iter().flatten());
    }
    Ok(findings)
}

/// Leaves out or refuses what the user does not want. What was found in large data sets
/// is remembered under the hash of their content.
pub(crate) fn screen(
    mut encoded: Encoded,
    broken: BrokenImages,
    odd: OddImages,
) -> Result<Encoded, DataError> {
    let whole = broken == BrokenImages::Skip;
    if !whole && odd == OddImages::Convert {
        return Ok(encoded);
    }
    let what = if whole { "decoded" } else { "looked-at" };
    encoded.findings = match remembered::is_large(&*encoded.files) {
        true => {
            let key = format!("{}-{what}", remembered::hash(&encoded)?);
            remembered::value(&key, || examine_all(&encoded, whole))?
        }
        false => examine_all(&encoded, whole)?,
    };
    let refused = |finding: &&Finding| match finding.fault.is_broken() {
        true => broken == BrokenImages::Refuse,
        false => odd == OddImages::Refuse,
    };
    let wrong: Vec<Finding> = encoded.findings.iter().filter(refused).cloned().collect();
    if !wrong.is_empty() {
        return Err(DataError::BadImages { findings: wrong });
    }
    let left_out = |finding: &&Finding| match finding.fault.is_broken() {
        true => broken == BrokenImages::Skip,
        false => odd == OddImages::Skip,
    };
    encoded.findings = encoded.findings.iter().filter(left_out).cloned().collect();
    let out: Vec<usize> = encoded
        .findings
        .iter()
        .map(|finding| finding.index)
        .collect();
    if !out.is_empty() {
        let all = 0..encoded.files.len() as u32;
        let kept = all.filter(|&index| out.binary_search(&(index as usize)).is_err());
        encoded.kept = Some(kept.collect());
    }
    Ok(encoded)
}
