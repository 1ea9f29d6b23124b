//! MATLAB's format 5, as much of it as ImageNet's `meta.mat` (an array of structures) and
//! SVHN's files (arrays of bytes) need.

use std::io::Read;

use flate2::read::ZlibDecoder;

/// No more is unpacked; the real file has less than a megabyte.
const MAX_BYTES: u64 = 64 << 20;

const COMPRESSED: u32 = 15;
const MATRIX: u32 = 14;
const STRUCT: u8 = 2;

/// A value of a field.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell {
    Text(String),
    Number(f64),
    Other,
}

/// The fields of one structure.
pub(crate) type Fields = Vec<(String, Cell)>;

/// Bytes that are read from the front.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self
            .0
            .split_at_checked(count)
            .ok_or("it ends in the middle of an element")?;
        self.0 = rest;
        Ok(taken)
    }

    fn word(&mut self) -> Result<u32, String> {
        let bytes = self.take(4)?;
        Ok(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    /// Type and content of the next element.
    fn element(&mut self) -> Result<(u32, &'a [u8]), String> {
        let first = self.word()?;
        if first >> 16 != 0 {
            // Short ones have their size in the upper half and their content behind it.
            let size = (first >> 16) as usize;
            let content = self.take(4)?;
            let content = content.get(..size).ok_or("a short element is too long")?;
            return Ok((first & 0xffff, content));
        }
        let size = self.word()? as usize;
        let content = self.take(size)?;
        if first != COMPRESSED {
            let padding = (8 - size % 8) % 8;
            self.take(padding.min(self.0.len()))?;
        }
        Ok((first, content))
    }
}

/// An array that is stored in bytes, the first index fastest.
#[derive(Debug, PartialEq)]
pub(crate) struct ByteArray {
    pub name: String,
    pub sizes: Vec<usize>,
    pub values: Vec<u8>,
}

/// All arrays of a file that are stored in bytes, of at most so many bytes each.
pub(crate) fn byte_arrays(file: &[u8], most: u64) -> Result<Vec<ByteArray>, String> {
    let mut found = Vec::new();
    matrices(file, most, |matrix| {
        found.extend(byte_array(matrix)?);
        Ok(false)
    })?;
    Ok(found)
}

/// A matrix, if it is stored in bytes: `uint8`, or whole numbers that MATLAB keeps so.
fn byte_array(content: &[u8]) -> Result<Option<ByteArray>, String> {
    const BYTES: u32 = 2;
    let mut bytes = Bytes(content);
    let (_, flags) = bytes.element()?;
    let class = flags.first().copied().unwrap_or(0);
    let sizes = sizes(bytes.element()?.1);
    let (_, name) = bytes.element()?;
    if !(6..=15).contains(&class) {
        return Ok(None);
    }
    let (kind, values) = bytes.element()?;
    let count = sizes
        .iter()
        .try_fold(1usize, |count, &size| count.checked_mul(size));
    if kind == BYTES && count != Some(values.len()) {
        return Err(format!("{} values for sizes {sizes:?}", values.len()));
    }
    Ok((kind == BYTES).then(|| ByteArray {
        name: String::from_utf8_lossy(name).into_owned(),
        sizes,
        values: values.to_vec(),
    }))
}

fn sizes(element: &[u8]) -> Vec<usize> {
    let (sizes, _) = element.as_chunks::<4>();
    let size = |size: &[u8; 4]| u32::from_le_bytes(*size) as usize;
    sizes.iter().map(size).collect()
}

/// The structures of the first array of structures in a file.
pub(crate) fn structures(file: &[u8]) -> Result<Vec<Fields>, String> {
    let mut found = None;
    matrices(file, MAX_BYTES, |matrix| {
        found = array(matrix)?;
        Ok(found.is_some())
    })?;
    found.ok_or_else(|| "it holds no array of structures".into())
}

/// Visits the matrices of a file, unpacked, until one is the last that is wanted.
fn matrices(
    file: &[u8],
    most: u64,
    mut visit: impl FnMut(&[u8]) -> Result<bool, String>,
) -> Result<(), String> {
    let (head, body) = file.split_at_checked(128).ok_or("it has no header")?;
    if !head.starts_with(b"MATLAB 5.0") || head[126..] != *b"IM" {
        return Err("it is not in MATLAB's format 5, little-endian".into());
    }
    let mut body = Bytes(body);
    let mut unpacked = Vec::new();
    while !body.0.is_empty() {
        let (kind, content) = body.element()?;
        let matrix = match kind {
            COMPRESSED => {
                unpacked.clear();
                let mut stream = ZlibDecoder::new(content).take(most);
                let read = stream.read_to_end(&mut unpacked);
                read.map_err(|error| error.to_string())?;
                let (kind, content) = Bytes(&unpacked).element()?;
                Some(content).filter(|_| kind == MATRIX)
            }
            MATRIX => Some(content),
            _ => None,
        };
        if let Some(matrix) = matrix
            && visit(matrix)?
        {
            break;
        }
    }
    Ok(())
}

/// The structures of a matrix, if it is one of structures.
fn array(content: &[u8]) -> Result<Option<Vec<Fields>>, String> {
    let mut bytes = Bytes(content);
    let (_, flags) = bytes.element()?;
    if flags.first() != Some(&STRUCT) {
        return Ok(None);
    }
    let sizes = sizes(bytes.element()?.1);
    let count = sizes
        .iter()
        .try_fold(1usize, |count, &size| count.checked_mul(size));
    let count = count.ok_or("its sizes make no sense")?;
    bytes.element()?; // Its name.
    let (_, length) = bytes.element()?;
    let length = length.first_chunk().map_or(0, |b| u32::from_le_bytes(*b));
    let (_, names) = bytes.element()?;
    if length == 0 {
        return Err("its fields have no names".into());
    }
    let names = names.chunks_exact(length as usize).map(|name| {
        let end = name.iter().position(|&byte| byte == 0);
        String::from_utf8_lossy(&name[..end.unwrap_or(name.len())]).into_owned()
    });
    let names: Vec<String> = names.collect();
    let mut structures = Vec::new();
    for _ in 0..count {
        let mut fields = Vec::with_capacity(names.len());
        for name in &names {
            let (kind, content) = bytes.element()?;
            let cell = match kind {
                MATRIX => cell(content)?,
                _ => Cell::Other,
            };
            fields.push((name.clone(), cell));
        }
        structures.push(fields);
    }
    Ok(Some(structures))
}

/// A matrix that is a text or a single number.
fn cell(content: &[u8]) -> Result<Cell, String> {
    if content.is_empty() {
        return Ok(Cell::Other);
    }
    let mut bytes = Bytes(content);
    let (_, flags) = bytes.element()?;
    let class = flags.first().copied().unwrap_or(0);
    bytes.element()?; // Its sizes.
    bytes.element()?; // Its name.
    if bytes.0.is_empty() || !(class == 4 || (6..=15).contains(&class)) {
        return Ok(Cell::Other);
    }
    let (kind, values) = bytes.element()?;
    if class == 4 {
        let text = match kind {
            4 | 17 => {
                let (units, _) = values.as_chunks::<2>();
                let units: Vec<u16> = units.iter().map(|u| u16::from_le_bytes(*u)).collect();
                String::from_utf16_lossy(&units)
            }
            _ => String::from_utf8_lossy(values).into_owned(),
        };
        return Ok(Cell::Text(text));
    }
    Ok(match (kind, values) {
        (1, &[a]) => Cell::Number(f64::from(a as i8)),
        (2, &[a]) => Cell::Number(f64::from(a)),
        (3, &[a, b]) => Cell::Number(f64::from(i16::from_le_bytes([a, b]))),
        (4, &[a, b]) => Cell::Number(f64::from(u16::from_le_bytes([a, b]))),
        (5, &[a, b, c, d]) => Cell::Number(f64::from(i32::from_le_bytes([a, b, c, d]))),
        (6, &[a, b, c, d]) => Cell::Number(f64::from(u32::from_le_bytes([a, b, c, d]))),
        (9, _) => match values.try_into() {
            Ok(eight) => Cell::Number(f64::from_le_bytes(eight)),
            Err(_) => Cell::Other,
        },
        _ => Cell::Other,
    })
}
