//! What a Parquet file says about itself: columns, row groups, names of classes.

use super::page::{ChunkPlace, Physical};
use super::thrift::{self, Value};
use crate::DataError;
use crate::at::ReadAt;

/// No honest description is longer.
const MAX_FOOTER: u64 = 256 << 20;

/// Columns of labels, the finest first.
const LABELS: [&str; 5] = ["label", "fine_label", "labels", "cls", "class"];

/// A column of a schema.
struct Leaf {
    path: Vec<String>,
    physical: Option<Physical>,
    max_definition: u32,
    repeated: bool,
}

/// The columns that count, in one row group.
pub(crate) struct RowGroup {
    pub image: ChunkPlace,
    pub path: Option<ChunkPlace>,
    pub label: Option<ChunkPlace>,
}

/// What is known about a file.
pub(crate) struct Footer {
    pub groups: Vec<RowGroup>,
    /// Names of the classes, where the file has them (Hugging Face's do).
    pub names: Vec<String>,
}

/// Reads the description at the end of a file.
pub(crate) fn footer(file: &ReadAt) -> Result<Footer, DataError> {
    let wrong = |what: String| DataError::format(&file.path, what);
    let end = file
        .len
        .checked_sub(8)
        .map(|at| file.bytes(at, 8))
        .transpose()?;
    let end = end.filter(|end| end.ends_with(b"PAR1"));
    let end = end.ok_or_else(|| wrong("it does not end as a Parquet file does".into()))?;
    let size: u64 = end
        .first_chunk()
        .map_or(0, |b| u32::from_le_bytes(*b))
        .into();
    let begin = file
        .len
        .checked_sub(8 + size)
        .filter(|_| size <= MAX_FOOTER);
    let begin = begin.ok_or_else(|| wrong(format!("a description of {size} bytes")))?;
    let bytes = file.bytes(begin, size)?;
    let about = thrift::structure(&bytes);
    let (about, _) = about.ok_or_else(|| wrong("its description cannot be read".into()))?;
    let mut leaves = Vec::new();
    let elements = about.list(2);
    let mut next = 1;
    let children = elements.first().and_then(|root| root.count(5)).unwrap_or(0);
    for _ in 0..children {
        walk(
            elements,
            &mut next,
            &mut Vec::new(),
            (0, false),
            &mut leaves,
        )
        .ok_or_else(|| wrong("its columns cannot be read".into()))?;
    }
    let columns = Columns::find(&leaves).map_err(wrong)?;
    let mut groups = Vec::new();
    for group in about.list(4) {
        let place = |column: usize| {
            let chunk = chunk(group, column, &leaves[column]);
            chunk.ok_or_else(|| wrong(format!("column {:?} has no place", leaves[column].path)))
        };
        groups.push(RowGroup {
            image: place(columns.image)?,
            path: columns.path.map(place).transpose()?,
            label: columns.label.map(place).transpose()?,
        });
    }
    let label = columns.label.map(|column| leaves[column].path.join("."));
    let names = label.and_then(|label| class_names(&about, &label));
    Ok(Footer {
        groups,
        names: names.unwrap_or_default(),
    })
}

/// Collects the columns below an element.
fn walk(
    elements: &[Value<'_>],
    next: &mut usize,
    path: &mut Vec<String>,
    (definition, repeated): (u32, bool),
    leaves: &mut Vec<Leaf>,
) -> Option<()> {
    let element = elements.get(*next)?;
    *next += 1;
    if path.len() > 32 {
        return None;
    }
    let repetition = element.whole(3).unwrap_or(0);
    let definition = definition + u32::from(repetition != 0);
    let repeated = repeated || repetition == 2;
    path.push(element.text(4)?.to_owned());
    match element.count(5).filter(|&children| children > 0) {
        Some(children) => {
            for _ in 0..children {
                walk(elements, next, path, (definition, repeated), leaves)?;
            }
        }
        None => leaves.push(Leaf {
            path: path.clone(),
            physical: match element.whole(1) {
                Some(1) => Some(Physical::Int32),
                Some(2) => Some(Physical::Int64),
                Some(6) => Some(Physical::Bytes),
                _ => None,
            },
            max_definition: definition,
            repeated,
        }),
    }
    path.pop();
    Some(())
}

struct Columns {
    image: usize,
    path: Option<usize>,
    label: Option<usize>,
}

impl Columns {
    fn find(leaves: &[Leaf]) -> Result<Self, String> {
        let usable = |leaf: &Leaf| !leaf.repeated && leaf.physical.is_some();
        let bytes = |leaf: &Leaf| usable(leaf) && leaf.physical == Some(Physical::Bytes);
        let inside = |leaf: &Leaf, name: &str| leaf.path.len() == 2 && leaf.path[1] == name;
        let image = leaves
            .iter()
            .position(|leaf| bytes(leaf) && inside(leaf, "bytes"));
        let image = image.ok_or_else(|| {
            let names: Vec<String> = leaves.iter().map(|leaf| leaf.path.join(".")).collect();
            format!(
                "expected a column image {{bytes, path}}, found {}",
                names.join(", ")
            )
        })?;
        let group = &leaves[image].path[0];
        let path = leaves
            .iter()
            .position(|leaf| bytes(leaf) && inside(leaf, "path") && leaf.path[0] == *group);
        let label = LABELS.iter().find_map(|name| {
            leaves.iter().position(|leaf| {
                usable(leaf) && leaf.path == [*name] && leaf.physical != Some(Physical::Bytes)
            })
        });
        Ok(Self { image, path, label })
    }
}

fn chunk(group: &Value<'_>, column: usize, leaf: &Leaf) -> Option<ChunkPlace> {
    let about = group.list(1).get(column)?.get(3)?;
    let data = about.count(9)?;
    let begin = about
        .count(11)
        .filter(|&at| at > 0)
        .map_or(data, |at| at.min(data));
    Some(ChunkPlace {
        begin,
        end: begin.checked_add(about.count(7)?)?,
        codec: about.whole(4)?,
        rows: group.count(3)?,
        physical: leaf.physical?,
        max_definition: leaf.max_definition,
    })
}

/// The names that Hugging Face's `datasets` writes into its files.
fn class_names(about: &Value<'_>, label: &str) -> Option<Vec<String>> {
    let pairs = about.list(5).iter();
    let mut texts = pairs.filter(|pair| pair.text(1) == Some("huggingface"));
    let text = texts.next()?.text(2)?;
    let json: serde_json::Value = serde_json::from_str(text).ok()?;
    let names = json.pointer(&format!("/info/features/{label}/names"))?;
    let names = match names {
        serde_json::Value::Array(names) => names.iter().map(|n| n.as_str().map(str::to_owned)),
        _ => return None,
    };
    names.collect()
}
