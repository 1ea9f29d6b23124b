//! Huffman codes (T.81 annex C), looked up many bits at a time.

use super::bits::Bits;

/// Bits that are looked up at once.
const LOOK: u32 = 10;
const UNKNOWN: &str = "its data hold a code that no table has";

/// What the next bits mean.
#[derive(Clone, Copy, Default)]
pub(super) struct Entry {
    /// A coefficient that follows its code within the looked-up bits; 0: none does.
    pub value: i16,
    /// The symbol: zeros before a coefficient in the upper half, its bits in the lower one.
    pub symbol: u8,
    /// Bits of the code and, if known, the coefficient; 0: the code is longer.
    pub bits: u8,
}

/// A table of codes.
#[derive(Clone)]
pub(super) struct Codes {
    look: Vec<Entry>,
    /// For each length the first 16-bit word beyond its codes, and where its symbols are.
    limits: [(u32, i32); 17],
    symbols: Vec<u8>,
}

impl Codes {
    /// Codes in the order of their lengths, `counts[i]` of length `i + 1`. With `values`,
    /// coefficients are looked up along with their codes.
    pub fn new(counts: [u8; 16], symbols: &[u8], values: bool) -> Result<Self, &'static str> {
        let mut codes = Self {
            look: vec![Entry::default(); 1 << LOOK],
            limits: [(0, 0); 17],
            symbols: symbols.to_vec(),
        };
        let (mut code, mut place) = (0u32, 0usize);
        for length in 1..=16u32 {
            let count = u32::from(counts[length as usize - 1]);
            codes.limits[length as usize].1 = place as i32 - code as i32;
            for _ in 0..count {
                let &symbol = symbols.get(place).ok_or("a table of codes is too short")?;
                if code >> length != 0 {
                    return Err("a table has more codes than there are");
                }
                if length <= LOOK {
                    codes.enter(code, length, symbol, values);
                }
                code += 1;
                place += 1;
            }
            codes.limits[length as usize].0 = code << (16 - length);
            code <<= 1;
        }
        Ok(codes)
    }

    /// All looked-up bits that begin with this code.
    fn enter(&mut self, code: u32, length: u32, symbol: u8, values: bool) {
        let free = LOOK - length;
        let size = u32::from(symbol & 15);
        for rest in 0..1u32 << free {
            let mut entry = Entry {
                value: 0,
                symbol,
                bits: length as u8,
            };
            if values && size > 0 && size <= free {
                let number = (rest >> (free - size)) as i32;
                let negative = number >> (size - 1) == 0;
                entry.value = (number + if negative { (-1 << size) + 1 } else { 0 }) as i16;
                entry.bits += size as u8;
            }
            self.look[(code << free | rest) as usize] = entry;
        }
    }

    /// What the next bits mean, without going on; a code that is longer than what is
    /// looked up has no bits.
    #[inline(always)]
    pub fn look(&self, bits: &Bits<'_>) -> Entry {
        self.look[bits.peek(LOOK) & ((1 << LOOK) - 1)]
    }

    /// The next symbol, going on behind it. For tables without values.
    #[inline(always)]
    pub fn symbol(&self, bits: &mut Bits<'_>) -> Result<u8, &'static str> {
        let entry = self.look(bits);
        if entry.bits > 0 {
            bits.skip(entry.bits.into());
            return Ok(entry.symbol);
        }
        self.long(bits)
    }

    /// A symbol whose code is longer than what is looked up.
    #[cold]
    pub fn long(&self, bits: &mut Bits<'_>) -> Result<u8, &'static str> {
        let word = bits.peek(16) as u32;
        for length in LOOK + 1..=16 {
            let (limit, offset) = self.limits[length as usize];
            if word < limit {
                bits.skip(length);
                let place = (word >> (16 - length)) as i32 + offset;
                let symbol = self.symbols.get(place as usize).copied();
                return symbol.ok_or(UNKNOWN);
            }
        }
        Err(UNKNOWN)
    }
}
