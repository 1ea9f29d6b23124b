//! Thrift's compact protocol, as Parquet writes its descriptions.

/// Deeper nesting is refused.
const MAX_DEPTH: usize = 16;

/// A value of which nothing is known before it is read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value<'a> {
    Flag(bool),
    Whole(i64),
    Bytes(&'a [u8]),
    List(Vec<Value<'a>>),
    Struct(Vec<(i16, Value<'a>)>),
    /// Numbers that nobody asks for.
    Real,
}

impl<'a> Value<'a> {
    /// A field of a structure.
    pub fn get(&self, field: i16) -> Option<&Value<'a>> {
        match self {
            Self::Struct(fields) => fields.iter().find(|(id, _)| *id == field).map(|(_, v)| v),
            _ => None,
        }
    }

    pub fn whole(&self, field: i16) -> Option<i64> {
        match self.get(field)? {
            Self::Whole(number) => Some(*number),
            _ => None,
        }
    }

    /// A whole number that is not negative.
    pub fn count(&self, field: i16) -> Option<u64> {
        self.whole(field)?.try_into().ok()
    }

    pub fn text(&self, field: i16) -> Option<&'a str> {
        match self.get(field)? {
            Self::Bytes(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    pub fn list(&self, field: i16) -> &[Value<'a>] {
        match self.get(field) {
            Some(Self::List(list)) => list,
            _ => &[],
        }
    }
}

/// Reads one structure; also how many bytes it took. None where the bytes end before
/// it or make no sense.
pub(crate) fn structure(bytes: &[u8]) -> Option<(Value<'_>, usize)> {
    let mut reader = Reader { bytes, at: 0 };
    let value = reader.structure(0)?;
    Some((value, reader.at))
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let taken = self.bytes.get(self.at..self.at.checked_add(count)?)?;
        self.at += count;
        Some(taken)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    fn zigzag(&mut self) -> Option<i64> {
        let number = self.varint()?;
        Some((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    fn structure(&mut self, depth: usize) -> Option<Value<'a>> {
        let mut fields = Vec::new();
        let mut id = 0i16;
        loop {
            let head = self.byte()?;
            if head == 0 {
                return Some(Value::Struct(fields));
            }
            id = match head >> 4 {
                0 => i16::try_from(self.zigzag()?).ok()?,
                delta => id.checked_add(delta.into())?,
            };
            let value = match head & 0x0f {
                1 => Value::Flag(true),
                2 => Value::Flag(false),
                kind => self.value(kind, depth + 1)?,
            };
            fields.push((id, value));
        }
    }

    fn value(&mut self, kind: u8, depth: usize) -> Option<Value<'a>> {
        if depth > MAX_DEPTH {
            return None;
        }
        Some(match kind {
            1 | 2 => Value::Flag(self.byte()? == 1),
            3 => Value::Whole((self.byte()? as i8).into()),
            4..=6 => Value::Whole(self.zigzag()?),
            7 => {
                self.take(8)?;
                Value::Real
            }
            8 => {
                let length = usize::try_from(self.varint()?).ok()?;
                Value::Bytes(self.take(length)?)
            }
            9 | 10 => {
                let head = self.byte()?;
                let count = match head >> 4 {
                    15 => usize::try_from(self.varint()?).ok()?,
                    count => count.into(),
                };
                let mut list = Vec::new();
                for _ in 0..count {
                    list.push(self.value(head & 0x0f, depth + 1)?);
                }
                Value::List(list)
            }
            12 => self.structure(depth)?,
            _ => return None,
        })
    }
}
