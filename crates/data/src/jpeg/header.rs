//! Markers and what stands behind them: sizes, components, tables (T.81 annex B).

use super::huffman::Codes;
use super::{Colours, Outline};

/// Where a coefficient stands in its block, by its place in the file. Runs of zeros that go
/// too far end at the last place.
pub(super) const ZIGZAG: [u8; 128] = {
    let mut places = [63; 128];
    let (mut row, mut column, mut place) = (0usize, 0usize, 0);
    while place < 64 {
        places[place] = (8 * row + column) as u8;
        if (row + column) % 2 == 0 {
            if column == 7 {
                row += 1;
            } else if row == 0 {
                column += 1;
            } else {
                row -= 1;
                column += 1;
            }
        } else if row == 7 {
            column += 1;
        } else if column == 0 {
            row += 1;
        } else {
            row += 1;
            column -= 1;
        }
        place += 1;
    }
    places
};

pub(super) const START_OF_SCAN: u8 = 0xda;
pub(super) const END_OF_IMAGE: u8 = 0xd9;

/// The markers of a file, one after the other.
#[derive(Clone)]
pub(super) struct Markers<'a> {
    pub rest: &'a [u8],
}

impl<'a> Markers<'a> {
    /// The next marker and the bytes that belong to it. What stands between markers is
    /// passed over.
    pub fn next(&mut self) -> Result<(u8, &'a [u8]), String> {
        loop {
            let at = self.rest.iter().position(|&byte| byte == 0xff);
            let at = at.ok_or("it ends before the image does")?;
            self.rest = &self.rest[at + 1..];
            match self.rest.first() {
                None => return Err("it ends before the image does".into()),
                // Filling, stuffed bytes of no scan, and markers that stand alone.
                Some(0xff | 0x00 | 0x01 | 0xd0..=0xd8) => continue,
                Some(&END_OF_IMAGE) => return Ok((END_OF_IMAGE, &[])),
                Some(&marker) => {
                    let length = self.rest.get(1..).and_then(<[u8]>::first_chunk);
                    let length = length.map_or(0, |bytes| usize::from(u16::from_be_bytes(*bytes)));
                    let segment = self.rest.get(3..1 + length.max(2));
                    let segment = segment.ok_or("it ends in its header")?;
                    self.rest = &self.rest[1 + length.max(2)..];
                    return Ok((marker, segment));
                }
            }
        }
    }
}

/// A component of the image.
#[derive(Clone, Copy, Debug)]
pub(super) struct Component {
    pub id: u8,
    /// Samples across and down, where the largest component has the most.
    pub sampling: [usize; 2],
    /// Which table of quanta.
    pub quanta: usize,
}

/// A table of codes as it stands in the file.
type RawCodes = ([u8; 16], Vec<u8>);

/// Tables, as far as they were read.
#[derive(Clone, Default)]
pub(super) struct Tables {
    /// In the order of a block.
    pub quanta: [Option<[u16; 64]>; 4],
    /// Of first coefficients, and of the others.
    codes: [[Option<RawCodes>; 4]; 2],
    /// Units between restart markers; 0: there are none.
    pub restart: usize,
}

/// All that stands before the first scan.
pub(super) struct Header<'a> {
    pub width: usize,
    pub height: usize,
    pub progressive: bool,
    pub components: Vec<Component>,
    pub tables: Tables,
    colours: Colours,
    /// What follows, from the first scan's marker on.
    pub markers: Markers<'a>,
}

impl Tables {
    /// Takes what a marker brings, if it brings tables.
    pub fn take(&mut self, marker: u8, segment: &[u8]) -> Result<(), String> {
        match marker {
            0xdb => self.take_quanta(segment),
            0xc4 => self.take_codes(segment),
            0xdd => {
                let units = segment.first_chunk().ok_or("its restart interval is cut")?;
                self.restart = u16::from_be_bytes(*units).into();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn take_quanta(&mut self, mut segment: &[u8]) -> Result<(), String> {
        while let Some((&head, rest)) = segment.split_first() {
            let wide = head >> 4 != 0;
            let size = if wide { 128 } else { 64 };
            let (values, rest) = rest
                .split_at_checked(size)
                .ok_or("a table of quanta is too short")?;
            let mut quanta = [0; 64];
            for (place, &to) in ZIGZAG[..64].iter().enumerate() {
                quanta[usize::from(to)] = match wide {
                    true => u16::from_be_bytes([values[2 * place], values[2 * place + 1]]),
                    false => values[place].into(),
                };
            }
            let slot = self.quanta.get_mut(usize::from(head & 15));
            *slot.ok_or("a table of quanta has no such number")? = Some(quanta);
            segment = rest;
        }
        Ok(())
    }

    fn take_codes(&mut self, mut segment: &[u8]) -> Result<(), String> {
        while let Some((&head, rest)) = segment.split_first() {
            let short = "a table of codes is too short";
            let (&counts, rest) = rest.split_first_chunk::<16>().ok_or(short)?;
            let total = counts.iter().map(|&count| usize::from(count)).sum();
            let (symbols, rest) = rest.split_at_checked(total).ok_or(short)?;
            let class = self.codes.get_mut(usize::from(head >> 4));
            let slot = class.and_then(|class| class.get_mut(usize::from(head & 15)));
            let slot = slot.ok_or("a table of codes has no such number")?;
            *slot = Some((counts, symbols.to_vec()));
            segment = rest;
        }
        Ok(())
    }

    /// The codes of first coefficients (`class` 0) or others (1).
    pub fn codes(&self, class: usize, number: usize, values: bool) -> Result<Codes, String> {
        let table = self.codes[class].get(number).and_then(Option::as_ref);
        let (counts, symbols) = table.ok_or("a table of codes is missing")?;
        Ok(Codes::new(*counts, symbols, values)?)
    }
}

impl<'a> Header<'a> {
    /// Reads a file up to its first scan.
    pub fn read(file: &'a [u8]) -> Result<Self, String> {
        let mut markers = Markers { rest: file };
        let mut tables = Tables::default();
        let (mut jfif, mut adobe, mut frame) = (false, None, None);
        loop {
            let before = markers.clone();
            let (marker, segment) = markers.next()?;
            match marker {
                0xc0..=0xc2 => {
                    if frame.is_some() {
                        return Err("it has two frames".into());
                    }
                    frame = Some((marker == 0xc2, read_frame(segment)?));
                }
                0xc3 | 0xc5..=0xc7 | 0xcb | 0xcd..=0xcf => {
                    return Err("lossless and hierarchical JPEG are not supported".into());
                }
                0xc9 | 0xca | 0xcc => return Err("arithmetic coding is not supported".into()),
                0xe0 if segment.starts_with(b"JFIF\0") => jfif = true,
                0xee if segment.starts_with(b"Adobe") && segment.len() >= 12 => {
                    adobe = Some(segment[11]);
                }
                START_OF_SCAN => {
                    let (progressive, (height, width, components)) =
                        frame.ok_or("it has no frame before its data")?;
                    return Ok(Self {
                        width,
                        height,
                        progressive,
                        colours: colours(&components, jfif, adobe),
                        components,
                        tables,
                        markers: before,
                    });
                }
                END_OF_IMAGE => return Err("it has no data".into()),
                _ => tables.take(marker, segment)?,
            }
        }
    }

    pub fn outline(&self) -> Outline {
        Outline {
            width: self.width,
            height: self.height,
            colours: self.colours,
        }
    }
}

/// Height, width and components.
fn read_frame(segment: &[u8]) -> Result<(usize, usize, Vec<Component>), String> {
    let (head, rest) = segment
        .split_first_chunk::<6>()
        .ok_or("its frame is too short")?;
    let [bits, h1, h0, w1, w0, count] = *head;
    let height = usize::from(u16::from_be_bytes([h1, h0]));
    let width = usize::from(u16::from_be_bytes([w1, w0]));
    if bits != 8 {
        return Err(format!("{bits} bits a sample are not supported"));
    }
    if width == 0 || height == 0 {
        return Err(format!("it has {width} x {height} pixels"));
    }
    let (parts, _) = rest.as_chunks::<3>();
    if ![1, 3, 4].contains(&count) || parts.len() < count.into() {
        return Err(format!("{count} components are not supported"));
    }
    let component = |&[id, sampling, quanta]: &[u8; 3]| Component {
        id,
        sampling: [sampling >> 4, sampling & 15].map(usize::from),
        quanta: quanta.into(),
    };
    let mut components: Vec<Component> = parts[..count.into()].iter().map(component).collect();
    let in_range = |c: &Component| c.sampling.iter().all(|s| (1..=4).contains(s));
    if !components.iter().all(in_range) {
        return Err("its sampling makes no sense".into());
    }
    if let [only] = &mut components[..] {
        // Of a single component the sampling means nothing.
        only.sampling = [1, 1];
    }
    Ok((height, width, components))
}

/// What the components are: nothing in a file says so for sure; libjpeg's guess.
fn colours(components: &[Component], jfif: bool, adobe: Option<u8>) -> Colours {
    let ids: Vec<u8> = components.iter().map(|component| component.id).collect();
    match (components.len(), adobe) {
        (1, _) => Colours::Grey,
        (3, _) if jfif => Colours::YCbCr,
        (3, Some(0)) => Colours::Rgb,
        (3, None) if ids == *b"RGB" => Colours::Rgb,
        (3, _) => Colours::YCbCr,
        (_, None | Some(0)) => Colours::Cmyk,
        _ => Colours::Ycck,
    }
}
