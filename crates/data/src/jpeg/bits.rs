//! The bits of a scan.

/// Zero bytes behind the data, so that eight can always be read at once.
const PADDING: usize = 8;
const TOO_SHORT: &str = "its data end before the image does";

/// The data of a scan without stuffed bytes and markers, in the pieces between restart
/// markers.
pub(super) struct Data {
    bytes: Vec<u8>,
    /// Where each piece begins and ends.
    pieces: Vec<(usize, usize)>,
}

impl Data {
    /// Takes the data that begin a file's rest; returns also how many bytes they take there.
    #[inline(always)]
    pub fn read(rest: &[u8]) -> (Self, usize) {
        let mut bytes = Vec::with_capacity(rest.len() + 2 * PADDING);
        let (mut pieces, mut begin, mut at) = (Vec::new(), 0, 0);
        let end_piece = |bytes: &mut Vec<u8>, begin: &mut usize| {
            let piece = (*begin, bytes.len());
            bytes.extend([0; PADDING]);
            *begin = bytes.len();
            piece
        };
        while at < rest.len() {
            // Most bytes are copied sixteen at a time.
            while let Some(chunk) = rest[at..].first_chunk::<16>() {
                if chunk.iter().fold(false, |any, &byte| any | (byte == 0xff)) {
                    break;
                }
                bytes.extend_from_slice(chunk);
                at += 16;
            }
            let Some(&byte) = rest.get(at) else { break };
            at += 1;
            if byte != 0xff {
                bytes.push(byte);
                continue;
            }
            match rest.get(at) {
                Some(0) => {
                    bytes.push(0xff);
                    at += 1;
                }
                Some(0xd0..=0xd7) => {
                    pieces.push(end_piece(&mut bytes, &mut begin));
                    at += 1;
                }
                // Before a marker may stand any number of these.
                Some(0xff) => {}
                _ => {
                    at -= 1;
                    break;
                }
            }
        }
        pieces.push(end_piece(&mut bytes, &mut begin));
        (Self { bytes, pieces }, at)
    }

    /// The bits of a piece.
    pub fn piece(&self, number: usize) -> Result<Bits<'_>, &'static str> {
        let &(begin, end) = self.pieces.get(number).ok_or(TOO_SHORT)?;
        Ok(Bits {
            bytes: &self.bytes[begin..end + PADDING],
            at: 0,
            word: 0,
            count: 0,
        })
    }
}

/// Bits, the first ones highest in `word`; behind the end of the data all are zero.
pub(super) struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
    word: u64,
    count: u32,
}

impl Bits<'_> {
    /// Makes sure of 32 bits or more: enough for a code and a number.
    #[inline(always)]
    pub fn refill(&mut self) {
        if self.count >= 32 {
            return;
        }
        let next = self.bytes.get(self.at..).and_then(<[u8]>::first_chunk);
        let next = next.map_or(0, |bytes| u64::from_be_bytes(*bytes));
        self.word |= next >> self.count;
        self.at += ((63 - self.count) >> 3) as usize;
        self.count |= 56;
    }

    /// The next bits, 1 to 16 of them.
    #[inline(always)]
    pub fn peek(&self, bits: u32) -> usize {
        (self.word >> (64 - bits)) as usize
    }

    #[inline(always)]
    pub fn skip(&mut self, bits: u32) {
        self.word <<= bits;
        self.count -= bits;
    }

    /// A number of up to 16 bits.
    #[inline(always)]
    pub fn take(&mut self, bits: u32) -> u32 {
        if bits == 0 {
            return 0;
        }
        let number = self.peek(bits) as u32;
        self.skip(bits);
        number
    }

    /// A signed number of so many bits, as T.81 F.2.2.1 extends it: those that begin with
    /// a zero are negative.
    #[inline(always)]
    pub fn signed(&mut self, bits: u32) -> i32 {
        if bits == 0 {
            return 0;
        }
        let number = self.peek(bits) as i32;
        let negative = !((self.word as i64 >> 63) as i32);
        self.skip(bits);
        number + (((-1 << bits) + 1) & negative)
    }

    /// Refuses more bits than there were.
    #[inline(always)]
    pub fn check(&self) -> Result<(), &'static str> {
        // `count` may be more than was read of the last bytes: they are zero.
        let used = 8 * self.at as u64 - u64::from(self.count);
        match used <= 8 * (self.bytes.len() - PADDING) as u64 {
            true => Ok(()),
            false => Err(TOO_SHORT),
        }
    }
}
