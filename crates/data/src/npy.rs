//! One array of an `.npz` file, in NumPy's format.

use std::io::Read;

/// No honest array is larger.
const MAX_BYTES: u64 = 4 << 30;
/// Nor has a longer header.
const MAX_HEADER: usize = 1 << 16;

/// The numbers of an array, by what they are good for here.
#[derive(Debug, PartialEq)]
pub(crate) enum Numbers {
    Bytes(Vec<u8>),
    Whole(Vec<i64>),
    Real(Vec<f64>),
}

/// An array in the order of C.
#[derive(Debug, PartialEq)]
pub(crate) struct Array {
    pub shape: Vec<usize>,
    pub numbers: Numbers,
}

/// What stands in front of an array's numbers.
#[derive(Debug, PartialEq)]
pub(crate) struct Head {
    pub shape: Vec<usize>,
    /// The kind of numbers, as `u1`.
    pub code: String,
    little: bool,
    /// Bytes of all numbers.
    pub total: u64,
    /// Bytes in front of the numbers.
    pub begin: u64,
}

/// Reads what stands in front of the numbers; `most` is how many bytes there can be.
pub(crate) fn head(stream: &mut dyn Read, most: u64) -> Result<Head, String> {
    let io = |error: std::io::Error| error.to_string();
    let mut start = [0; 8];
    stream.read_exact(&mut start).map_err(io)?;
    if !start.starts_with(b"\x93NUMPY") {
        return Err("it is not in NumPy's format".into());
    }
    let mut length = [0; 4];
    let bytes = if start[6] == 1 { 2 } else { 4 };
    stream.read_exact(&mut length[..bytes]).map_err(io)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > MAX_HEADER {
        return Err(format!("its header has {length} bytes"));
    }
    let mut header = vec![0; length];
    stream.read_exact(&mut header).map_err(io)?;
    let header = String::from_utf8(header).map_err(|_| "its header is not text")?;
    let kind = quoted(&header, "descr").ok_or("its header has no descr")?;
    if entry(&header, "fortran_order").is_none_or(|order| !order.starts_with("False")) {
        return Err("it is in Fortran's order; save a copy by numpy.ascontiguousarray".into());
    }
    let shape = shape(&header).ok_or("its header has no shape")?;
    let (little, code) = match kind.split_at_checked(1) {
        Some(("<" | "|" | "=", code)) => (true, code),
        Some((">", code)) => (false, code),
        _ => (true, kind),
    };
    let size = size_of(code).ok_or_else(|| format!("its numbers are of kind {kind:?}"))?;
    let count = shape
        .iter()
        .try_fold(1u64, |count, &size| count.checked_mul(size as u64));
    let total = count.and_then(|count| count.checked_mul(size as u64));
    let total = total.filter(|&total| total <= most);
    let total = total.ok_or_else(|| format!("its shape {shape:?} is more than it holds"))?;
    Ok(Head {
        shape,
        code: code.to_owned(),
        little,
        total,
        begin: (8 + bytes + length) as u64,
    })
}

fn size_of(code: &str) -> Option<usize> {
    match code {
        "u1" | "i1" | "b1" => Some(1),
        "u2" | "i2" => Some(2),
        "u4" | "i4" | "f4" => Some(4),
        "i8" | "f8" => Some(8),
        _ => None,
    }
}

/// Reads an array; `most` is how many bytes there can be. Nothing is allocated from
/// what the header claims before the claim is checked against it.
pub(crate) fn read(stream: &mut dyn Read, most: u64) -> Result<Array, String> {
    let io = |error: std::io::Error| error.to_string();
    let Head {
        shape,
        code,
        little,
        total,
        ..
    } = head(stream, most.min(MAX_BYTES))?;
    let (code, size) = (code.as_str(), size_of(&code).unwrap_or(1));
    let mut content = Vec::new();
    stream.take(total).read_to_end(&mut content).map_err(io)?;
    if content.len() as u64 != total {
        return Err(format!(
            "expected {total} bytes of numbers, got {}",
            content.len()
        ));
    }
    if !little {
        content.chunks_exact_mut(size).for_each(<[u8]>::reverse);
    }
    let numbers = match code {
        "u1" => Numbers::Bytes(content),
        "f4" => Numbers::Real(each(&content, |b| f32::from_le_bytes(b).into())),
        "f8" => Numbers::Real(each(&content, f64::from_le_bytes)),
        "i1" | "b1" => Numbers::Whole(each(&content, |b| i8::from_le_bytes(b).into())),
        "i2" => Numbers::Whole(each(&content, |b| i16::from_le_bytes(b).into())),
        "u2" => Numbers::Whole(each(&content, |b| u16::from_le_bytes(b).into())),
        "i4" => Numbers::Whole(each(&content, |b| i32::from_le_bytes(b).into())),
        "u4" => Numbers::Whole(each(&content, |b| u32::from_le_bytes(b).into())),
        _ => Numbers::Whole(each(&content, i64::from_le_bytes)),
    };
    Ok(Array { shape, numbers })
}

/// Numbers of `N` bytes each.
fn each<const N: usize, T>(bytes: &[u8], of: impl Fn([u8; N]) -> T) -> Vec<T> {
    let (numbers, _) = bytes.as_chunks::<N>();
    numbers.iter().map(|bytes| of(*bytes)).collect()
}

/// What stands behind a key of the header, a dictionary as Python writes it.
fn entry<'h>(header: &'h str, key: &str) -> Option<&'h str> {
    let rest = &header[header.find(&format!("'{key}'"))? + key.len() + 2..];
    Some(rest.trim_start().strip_prefix(':')?.trim_start())
}

fn quoted<'h>(header: &'h str, key: &str) -> Option<&'h str> {
    let rest = entry(header, key)?.strip_prefix('\'')?;
    rest.split_once('\'').map(|(text, _)| text)
}

fn shape(header: &str) -> Option<Vec<usize>> {
    let rest = entry(header, "shape")?.strip_prefix('(')?;
    let sizes = rest.split_once(')')?.0.split(',').map(str::trim);
    sizes
        .filter(|size| !size.is_empty())
        .map(|size| size.parse().ok())
        .collect()
}
