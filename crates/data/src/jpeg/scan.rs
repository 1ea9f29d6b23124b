//! The scans of a file to planes of samples.

use super::bits::{Bits, Data};
use super::block::{Band, first_pass, later_pass, sequential};
use super::header::{Component, END_OF_IMAGE, Header, Markers, START_OF_SCAN, Tables};
use super::huffman::Codes;
use super::plane::Plane;
use super::transform::{inverse, inverse_flat};
use crate::resize::CropBox;

/// A component while it is read.
struct Reading {
    id: u8,
    sampling: [usize; 2],
    quanta_number: usize,
    quanta: Option<[u16; 64]>,
    /// Blocks across and down, without and with what fills up the units of all components.
    blocks: [usize; 2],
    padded: [usize; 2],
    /// Of progressive files: all coefficients.
    coefficients: Vec<i16>,
    plane: Plane,
}

/// A component in a scan.
struct Part {
    component: usize,
    /// Of first coefficients, and of the others; as far as the scan has them.
    first: Option<Codes>,
    others: Option<Codes>,
    /// The first coefficient of the block before.
    before: i32,
}

/// The samples that a window of the image needs.
#[inline(always)]
pub(super) fn planes(header: &Header<'_>, window: CropBox) -> Result<Vec<Plane>, String> {
    let size = [header.width, header.height];
    let components = &header.components;
    let most = |i: usize| components.iter().map(|c| c.sampling[i]).max().unwrap_or(1);
    let most = [most(0), most(1)];
    let uneven = |c: &Component| most[0] % c.sampling[0] != 0 || most[1] % c.sampling[1] != 0;
    if components.iter().any(uneven) {
        return Err("components of fractional sizes are not supported".into());
    }
    let units: [usize; 2] = std::array::from_fn(|i| size[i].div_ceil(8 * most[i]));
    // Every block takes a bit at least.
    if units[0] * units[1] / 8 > header.markers.rest.len() {
        return Err("its data are too short for its size".into());
    }
    let mut readings: Vec<Reading> = components
        .iter()
        .map(|component| {
            let plane = Plane::new(component, size, most, window);
            let padded: [usize; 2] = std::array::from_fn(|i| units[i] * component.sampling[i]);
            let coefficients = match header.progressive {
                true => vec![0; padded[0] * padded[1] * 64],
                false => Vec::new(),
            };
            Reading {
                id: component.id,
                sampling: component.sampling,
                quanta_number: component.quanta,
                quanta: None,
                blocks: [plane.real_width.div_ceil(8), plane.real_height.div_ceil(8)],
                padded,
                coefficients,
                plane,
            }
        })
        .collect();

    let mut tables = header.tables.clone();
    let mut markers = header.markers.clone();
    loop {
        let (marker, segment) = match markers.next() {
            // Progressive files may lack their last marker.
            Err(_) if readings.iter().all(|reading| reading.quanta.is_some()) => break,
            other => other?,
        };
        match marker {
            START_OF_SCAN => {
                let progressive = header.progressive;
                scan(
                    segment,
                    &mut markers,
                    &tables,
                    &mut readings,
                    (units, progressive),
                )?;
                let all = readings.iter().all(|reading| reading.quanta.is_some());
                if all && !progressive {
                    break;
                }
            }
            END_OF_IMAGE => break,
            _ => tables.take(marker, segment)?,
        }
    }
    if readings.iter().any(|reading| reading.quanta.is_none()) {
        return Err("a component is missing".into());
    }
    if header.progressive {
        readings.iter_mut().for_each(transform);
    }
    Ok(readings.into_iter().map(|reading| reading.plane).collect())
}

/// Reads one scan.
#[inline(always)]
fn scan(
    segment: &[u8],
    markers: &mut Markers<'_>,
    tables: &Tables,
    readings: &mut [Reading],
    (units, progressive): ([usize; 2], bool),
) -> Result<(), String> {
    let short = "the head of a scan is too short";
    let (&count, rest) = segment.split_first().ok_or(short)?;
    let (chosen, rest) = rest.split_at_checked(2 * usize::from(count)).ok_or(short)?;
    let &[from, to, bits] = rest.first_chunk().ok_or(short)?;
    let band = match progressive {
        true => Band {
            from: from.into(),
            to: to.into(),
            high: u32::from(bits >> 4),
            low: u32::from(bits & 15),
        },
        false => Band {
            from: 0,
            to: 63,
            high: 0,
            low: 0,
        },
    };
    let wrong = band.from > band.to
        || band.to > 63
        || band.low > 13
        || (progressive && band.from == 0 && band.to > 0)
        || (progressive && band.from > 0 && count != 1);
    if wrong || count == 0 || count > 4 {
        return Err("the head of a scan makes no sense".into());
    }
    let mut parts = Vec::new();
    for &[id, codes] in chosen.as_chunks::<2>().0 {
        let component = readings.iter().position(|reading| reading.id == id);
        let component = component.ok_or("a scan has a component that the image has not")?;
        let reading = &mut readings[component];
        if reading.quanta.is_none() {
            let quanta = tables.quanta.get(reading.quanta_number).copied().flatten();
            reading.quanta = Some(quanta.ok_or("a table of quanta is missing")?);
        }
        // Refined first coefficients come without codes.
        let first = band.from == 0 && band.high == 0;
        let number = |shift: u8| usize::from(codes >> shift & 15);
        let first = first.then(|| tables.codes(0, number(4), false));
        let others = (band.to > 0).then(|| tables.codes(1, number(0), !progressive));
        parts.push(Part {
            component,
            first: first.transpose()?,
            others: others.transpose()?,
            before: 0,
        });
    }

    let (data, used) = Data::read(markers.rest);
    // With a marker behind them, data may be taken for whole, and what is below the window
    // need not be read.
    let whole = used < markers.rest.len();
    markers.rest = &markers.rest[used..];
    let mut reader = Reader {
        data: &data,
        bits: data.piece(0)?,
        piece: 0,
        restart: tables.restart,
        left: tables.restart,
        zeros: 0,
    };
    if let [part] = &mut parts[..] {
        let reading = &mut readings[part.component];
        let [across, down] = reading.blocks;
        let down = match progressive || !whole {
            true => down,
            false => down.min(reading.plane.last_block_row()),
        };
        for y in 0..down {
            for x in 0..across {
                if reader.begins_anew()? {
                    part.before = 0;
                }
                reader.block(reading, part, [x, y], (band, progressive))?;
            }
            reader.bits.check()?;
        }
        return Ok(());
    }
    let rows = |part: &Part| {
        let reading = &readings[part.component];
        let rows = reading.plane.last_block_row();
        rows.div_ceil(reading.sampling[1])
    };
    let down = match progressive || !whole {
        true => units[1],
        false => parts.iter().map(rows).max().unwrap_or(0).min(units[1]),
    };
    for row in 0..down {
        for column in 0..units[0] {
            if reader.begins_anew()? {
                parts.iter_mut().for_each(|part| part.before = 0);
            }
            for part in &mut parts {
                let reading = &mut readings[part.component];
                let [across, down] = reading.sampling;
                for y in row * down..(row + 1) * down {
                    for x in column * across..(column + 1) * across {
                        reader.block(reading, part, [x, y], (band, progressive))?;
                    }
                }
            }
        }
        reader.bits.check()?;
    }
    Ok(())
}

/// Where a scan is read.
struct Reader<'a> {
    data: &'a Data,
    bits: Bits<'a>,
    piece: usize,
    /// Units between restart markers, and how many are left; 0: no markers.
    restart: usize,
    left: usize,
    /// Blocks that have nothing more in this band.
    zeros: u32,
}

impl Reader<'_> {
    /// Whether a unit begins behind a restart marker.
    #[inline(always)]
    fn begins_anew(&mut self) -> Result<bool, String> {
        if self.restart == 0 {
            return Ok(false);
        }
        if self.left > 0 {
            self.left -= 1;
            return Ok(false);
        }
        self.bits.check()?;
        self.piece += 1;
        self.bits = self.data.piece(self.piece)?;
        self.left = self.restart - 1;
        self.zeros = 0;
        Ok(true)
    }

    #[inline(always)]
    fn block(
        &mut self,
        reading: &mut Reading,
        part: &mut Part,
        [x, y]: [usize; 2],
        (band, progressive): (Band, bool),
    ) -> Result<(), String> {
        if progressive {
            let place = (y * reading.padded[0] + x) * 64;
            let block = reading.coefficients[place..].first_chunk_mut();
            let block = block.ok_or("a block is beyond its component")?;
            return Ok(self.refine(block, part, band)?);
        }
        let (Some(first), Some(others)) = (&part.first, &part.others) else {
            return Err("a table of codes is missing".into());
        };
        let mut block = [0; 64];
        let stride = reading.plane.stride;
        let Some(out) = reading.plane.block(x, y) else {
            sequential::<false>(&mut self.bits, first, others, &mut part.before, &mut block)?;
            return Ok(());
        };
        let flat = sequential::<true>(&mut self.bits, first, others, &mut part.before, &mut block)?;
        match &reading.quanta {
            Some(quanta) if flat => inverse_flat(block[0], quanta[0], out, stride),
            Some(quanta) => inverse(&block, quanta, out, stride),
            None => {}
        }
        Ok(())
    }

    /// A block of a scan of a progressive file.
    fn refine(
        &mut self,
        block: &mut [i16; 64],
        part: &mut Part,
        band: Band,
    ) -> Result<(), &'static str> {
        let bits = &mut self.bits;
        if band.from == 0 {
            bits.refill();
            match &part.first {
                Some(codes) => {
                    let size = codes.symbol(bits)?.min(15);
                    let difference = bits.signed(size.into());
                    part.before = part.before.wrapping_add(difference);
                    block[0] = (part.before << band.low) as i16;
                }
                None => block[0] |= (bits.take(1) << band.low) as i16,
            }
            return Ok(());
        }
        let Some(codes) = &part.others else {
            return Ok(());
        };
        match band.high {
            0 => first_pass(bits, codes, block, band, &mut self.zeros),
            _ => later_pass(bits, codes, block, band, &mut self.zeros),
        }
    }
}

/// The samples of a component whose coefficients are all there.
#[inline(always)]
fn transform(reading: &mut Reading) {
    let stride = reading.plane.stride;
    let Some(quanta) = &reading.quanta else {
        return;
    };
    for (place, block) in reading.coefficients.as_chunks::<64>().0.iter().enumerate() {
        let (x, y) = (place % reading.padded[0], place / reading.padded[0]);
        if let Some(out) = reading.plane.block(x, y) {
            inverse(block, quanta, out, stride);
        }
    }
}
