//! Pages of a column: where they are, and the values in them.

use std::io::Read;
use std::ops::Range;

use flate2::read::GzDecoder;

use super::thrift::{self, Value};
use crate::DataError;
use crate::at::ReadAt;

/// No honest page is larger.
const MAX_PAGE: u64 = 1 << 30;
/// Nor has more values.
const MAX_VALUES: u64 = 1 << 24;
/// Nor has a longer description.
const MAX_HEADER: u64 = 1 << 24;

/// What a column's values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Physical {
    Int32,
    Int64,
    Bytes,
}

/// A column in one row group of a file.
#[derive(Clone, Debug)]
pub(crate) struct ChunkPlace {
    pub begin: u64,
    pub end: u64,
    pub codec: i64,
    pub rows: u64,
    pub physical: Physical,
    /// How often the column may be left out on the way to it.
    pub max_definition: u32,
}

/// Where a page is and how it is written.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    at: u64,
    compressed: u32,
    uncompressed: u32,
    pub values: u32,
    encoding: u8,
    dictionary: bool,
    codec: u8,
    max_definition: u8,
    physical: Physical,
    /// Bytes of levels in front of the values, where they are not compressed.
    levels: Option<(u32, bool)>,
}

/// Values of a page, one a row; `None` where there is none.
#[derive(Debug)]
pub(crate) enum Column {
    Whole(Vec<Option<i64>>),
    Bytes {
        all: Vec<u8>,
        rows: Vec<Option<Range<usize>>>,
    },
}

/// The pages of a chunk: its dictionary, if it has one, then those with values.
pub(crate) fn pages(
    file: &ReadAt,
    chunk: &ChunkPlace,
) -> Result<(Option<Page>, Vec<Page>), DataError> {
    let wrong = |what: &str| DataError::format(&file.path, what);
    let (mut dictionary, mut pages) = (None, Vec::new());
    let (mut at, mut rows) = (chunk.begin, 0);
    while rows < chunk.rows {
        let (page, next) = page(file, chunk, at)?;
        if next <= at {
            return Err(wrong("a page has no length"));
        }
        if next > chunk.end {
            return Err(wrong("a page goes beyond its column"));
        }
        at = next;
        match page {
            Some(page) if page.dictionary => dictionary = Some(page),
            Some(page) => {
                rows += u64::from(page.values);
                pages.push(page);
            }
            None => {}
        }
    }
    match rows == chunk.rows {
        true => Ok((dictionary, pages)),
        false => Err(wrong("its pages hold more rows than their group")),
    }
}

/// The page at a place, unless it is of a kind that holds no values; and where the next
/// one begins.
fn page(file: &ReadAt, chunk: &ChunkPlace, at: u64) -> Result<(Option<Page>, u64), DataError> {
    let wrong = |what: String| DataError::format(&file.path, what);
    let mut window = 1 << 10;
    loop {
        let bytes = file.bytes(at, window.min(file.len.saturating_sub(at)))?;
        if let Some((head, length)) = thrift::structure(&bytes) {
            let begin = at + length as u64;
            let sizes = (head.count(2), head.count(3));
            let (Some(uncompressed), Some(compressed)) = sizes else {
                return Err(wrong(format!("the page at {at} has no size")));
            };
            if uncompressed > MAX_PAGE || compressed > MAX_PAGE {
                return Err(wrong(format!(
                    "the page at {at} is larger than {MAX_PAGE} bytes"
                )));
            }
            let page = describe(&head, chunk).map(|page| Page {
                at: begin,
                compressed: compressed as u32,
                uncompressed: uncompressed as u32,
                ..page
            });
            return Ok((page, begin + compressed));
        }
        if window >= MAX_HEADER || at + window >= file.len {
            return Err(wrong(format!("there is no page at {at}")));
        }
        window *= 8;
    }
}

fn describe(head: &Value<'_>, chunk: &ChunkPlace) -> Option<Page> {
    let (values, encoding, dictionary, levels) = match head.whole(1)? {
        0 => {
            let about = head.get(5)?;
            (about.count(1)?, about.whole(2)?, false, None)
        }
        2 => {
            let about = head.get(7)?;
            (about.count(1)?, about.whole(2)?, true, None)
        }
        3 => {
            let about = head.get(8)?;
            let levels = about.count(5)?.checked_add(about.count(6)?)?;
            let packed = about.get(7) != Some(&Value::Flag(false));
            let levels = Some((u32::try_from(levels).ok()?, packed));
            (about.count(1)?, about.whole(4)?, false, levels)
        }
        _ => return None,
    };
    Some(Page {
        at: 0,
        compressed: 0,
        uncompressed: 0,
        values: Some(values).filter(|&n| n <= MAX_VALUES)? as u32,
        encoding: u8::try_from(encoding).ok()?,
        dictionary,
        codec: u8::try_from(chunk.codec).ok()?,
        max_definition: u8::try_from(chunk.max_definition).ok()?,
        physical: chunk.physical,
        levels,
    })
}

/// Undoes the compression; exactly `size` bytes are expected.
fn unpack(bytes: Vec<u8>, codec: u8, size: usize) -> Result<Vec<u8>, String> {
    let unpacked = match codec {
        0 => bytes,
        1 => {
            let claimed = snap::raw::decompress_len(&bytes).map_err(|error| error.to_string())?;
            if claimed != size {
                return Err(format!("it unpacks to {claimed} bytes, expected {size}"));
            }
            let unpacked = snap::raw::Decoder::new().decompress_vec(&bytes);
            unpacked.map_err(|error| error.to_string())?
        }
        2 => {
            let mut unpacked = Vec::new();
            let mut stream = GzDecoder::new(&bytes[..]).take(size as u64 + 1);
            let read = stream.read_to_end(&mut unpacked);
            read.map_err(|error| error.to_string())?;
            unpacked
        }
        other => {
            let names = ["", "", "", "LZO", "Brotli", "LZ4", "Zstandard", "LZ4"];
            let name = names.get(usize::from(other)).unwrap_or(&"an unknown way");
            return Err(format!(
                "it is compressed by {name}; plain, Snappy and gzip can be read"
            ));
        }
    };
    match unpacked.len() == size {
        true => Ok(unpacked),
        false => Err(format!("it has {} bytes, expected {size}", unpacked.len())),
    }
}

impl Page {
    /// Bytes that its values take when they are read.
    pub fn size(&self) -> usize {
        self.uncompressed as usize
    }

    /// Reads the values.
    pub fn read(&self, file: &ReadAt, dictionary: Option<&Column>) -> Result<Column, DataError> {
        let bytes = file.bytes(self.at, self.compressed.into())?;
        self.decode(bytes, dictionary).map_err(|what| {
            DataError::format(&file.path, format!("the page at {}: {what}", self.at))
        })
    }

    fn decode(&self, bytes: Vec<u8>, dictionary: Option<&Column>) -> Result<Column, String> {
        let count = self.values as usize;
        let size = self.uncompressed as usize;
        let width = bits(self.max_definition.into());
        let (all, begin, definitions) = match self.levels {
            // The levels stand in front, in plain bytes.
            Some((length, packed)) => {
                let length = length as usize;
                let rest = bytes.get(length..).ok_or("its levels are longer than it")?;
                let levels = hybrid(&bytes[..length], width, count)?;
                let left = size.checked_sub(length).ok_or("its sizes make no sense")?;
                let codec = if packed { self.codec } else { 0 };
                (unpack(rest.to_vec(), codec, left)?, 0, levels)
            }
            None => {
                let all = unpack(bytes, self.codec, size)?;
                if self.max_definition == 0 || self.dictionary {
                    (all, 0, vec![0; count.min(size)])
                } else {
                    let length = all.first_chunk().map(|b| u32::from_le_bytes(*b) as usize);
                    let levels = length.and_then(|length| all.get(4..4usize.checked_add(length)?));
                    let levels = levels.ok_or("its levels are longer than it")?;
                    let definitions = hybrid(levels, width, count)?;
                    let begin = 4 + levels.len();
                    (all, begin, definitions)
                }
            }
        };
        let whole = if self.dictionary {
            0
        } else {
            self.max_definition.into()
        };
        let is_value = |level: &u32| self.dictionary || *level == whole;
        if definitions.len() < count {
            return Err("it holds fewer values than it says".into());
        }
        let present = definitions.iter().filter(|level| is_value(level)).count();
        match self.encoding {
            0 | 2 if self.dictionary || self.encoding == 0 => {
                let values = plain(all, begin, present, self.physical)?;
                Ok(spread(values, &definitions, is_value))
            }
            2 | 8 => {
                let width = *all.get(begin).ok_or("it is empty")?;
                let indices = hybrid(&all[begin + 1..], width.into(), present)?;
                let looked_up = dictionary.ok_or("its dictionary is missing")?;
                Ok(spread(
                    look_up(looked_up, &indices)?,
                    &definitions,
                    is_value,
                ))
            }
            other => Err(format!(
                "its values are encoded in way {other}, which is not supported"
            )),
        }
    }
}

fn bits(most: u32) -> u32 {
    32 - most.leading_zeros()
}

/// Numbers of so many bits in runs: repeated, or packed by eights.
fn hybrid(bytes: &[u8], width: u32, count: usize) -> Result<Vec<u32>, String> {
    if width > 32 {
        return Err(format!("numbers of {width} bits"));
    }
    if width == 0 {
        return Ok(vec![0; count]);
    }
    let ends = "its runs end too early";
    let mut numbers = Vec::new();
    let mut rest = bytes;
    while numbers.len() < count {
        let mut head = 0u64;
        for shift in (0..).step_by(7) {
            let (&byte, tail) = rest.split_first().ok_or(ends)?;
            if shift > 56 {
                return Err("a run is too long".into());
            }
            rest = tail;
            head |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
        }
        let left = count - numbers.len();
        if head & 1 == 0 {
            let size = width.div_ceil(8) as usize;
            let (value, tail) = rest.split_at_checked(size).ok_or(ends)?;
            rest = tail;
            let value = value.iter().rev().fold(0u32, |v, &b| v << 8 | u32::from(b));
            let run = usize::try_from(head >> 1).unwrap_or(usize::MAX).min(left);
            numbers.resize(numbers.len() + run, value);
        } else {
            let groups = usize::try_from(head >> 1).unwrap_or(usize::MAX);
            let size = groups.saturating_mul(width as usize).min(rest.len());
            let (packed, tail) = rest.split_at(size);
            rest = tail;
            let run = groups.saturating_mul(8).min(left);
            if packed.len() * 8 < run.saturating_mul(width as usize) {
                return Err(ends.into());
            }
            let mask = u64::MAX >> (64 - width);
            for number in 0..run {
                let bit = number * width as usize;
                let window = packed[bit / 8..].iter().take(8);
                let word = window
                    .enumerate()
                    .fold(0u64, |w, (i, &b)| w | u64::from(b) << (8 * i));
                numbers.push((word >> (bit % 8) & mask) as u32);
            }
        }
    }
    Ok(numbers)
}

fn plain(all: Vec<u8>, begin: usize, count: usize, physical: Physical) -> Result<Column, String> {
    let short = || "it holds fewer values than it says".to_owned();
    let bytes = all.get(begin..).ok_or_else(short)?;
    let whole = |numbers: Vec<Option<i64>>| match numbers.len() == count {
        true => Ok(Column::Whole(numbers)),
        false => Err(short()),
    };
    match physical {
        Physical::Int32 => {
            let numbers = bytes.as_chunks().0.iter().take(count);
            whole(
                numbers
                    .map(|b| Some(i32::from_le_bytes(*b).into()))
                    .collect(),
            )
        }
        Physical::Int64 => {
            let numbers = bytes.as_chunks().0.iter().take(count);
            whole(numbers.map(|b| Some(i64::from_le_bytes(*b))).collect())
        }
        Physical::Bytes => {
            let (mut rows, mut at) = (Vec::new(), begin);
            for _ in 0..count {
                let length = all.get(at..).and_then(|rest| rest.first_chunk());
                let length = length
                    .map(|b| u32::from_le_bytes(*b) as usize)
                    .ok_or_else(short)?;
                let end = (at + 4).checked_add(length).filter(|&end| end <= all.len());
                let end = end.ok_or_else(short)?;
                rows.push(Some(at + 4..end));
                at = end;
            }
            Ok(Column::Bytes { all, rows })
        }
    }
}

fn look_up(dictionary: &Column, indices: &[u32]) -> Result<Column, String> {
    let beyond = || "it refers to a value that its dictionary does not have".to_owned();
    match dictionary {
        Column::Whole(numbers) => {
            let found = indices.iter().map(|&i| numbers.get(i as usize).copied());
            Ok(Column::Whole(
                found.collect::<Option<_>>().ok_or_else(beyond)?,
            ))
        }
        Column::Bytes { all, rows } => {
            let (mut copied, mut places) = (Vec::new(), Vec::new());
            for &index in indices {
                let range = rows
                    .get(index as usize)
                    .cloned()
                    .flatten()
                    .ok_or_else(beyond)?;
                let begin = copied.len();
                if begin + range.len() > MAX_PAGE as usize {
                    return Err("its values are too long".into());
                }
                copied.extend_from_slice(&all[range]);
                places.push(Some(begin..copied.len()));
            }
            Ok(Column::Bytes {
                all: copied,
                rows: places,
            })
        }
    }
}

/// Puts the values that there are into their rows.
fn spread(values: Column, definitions: &[u32], is_value: impl Fn(&u32) -> bool) -> Column {
    fn rows<T>(
        values: Vec<Option<T>>,
        definitions: &[u32],
        is_value: impl Fn(&u32) -> bool,
    ) -> Vec<Option<T>> {
        let mut values = values.into_iter();
        let row = |level: &u32| is_value(level).then(|| values.next().flatten()).flatten();
        definitions.iter().map(row).collect()
    }
    match values {
        Column::Whole(numbers) => Column::Whole(rows(numbers, definitions, is_value)),
        Column::Bytes { all, rows: places } => Column::Bytes {
            all,
            rows: rows(places, definitions, is_value),
        },
    }
}
