//! The batches of one epoch, a few of them prepared ahead.

use std::ops::Range;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

use rayon::prelude::*;

use crate::{Augment, DataError, Dataset, Images, permutation};

/// What a [`Loader`] delivers. The batches of an epoch depend on `batch_size`,
/// `shuffle`, `augment`, `seed` and `epoch` alone.
#[derive(Clone, Debug)]
pub struct LoaderOptions {
    /// Images in a batch; the last batch of an epoch may have fewer.
    pub batch_size: usize,
    /// In the order of [`permutation`], or in that of the data set.
    pub shuffle: bool,
    /// How images are varied.
    pub augment: Augment,
    /// Of shuffling and augmentation.
    pub seed: u64,
    /// Of shuffling and augmentation.
    pub epoch: u64,
    /// The first batch to deliver, to continue within an epoch.
    pub start_batch: usize,
    /// Leave out a last batch that is not full.
    pub drop_last: bool,
    /// Batches prepared ahead on a background thread when images have to be
    /// decoded. 0: none; data sets in memory never need it.
    pub prefetch: usize,
    /// Threads that decode; `None`: rayon's global pool.
    pub threads: Option<usize>,
    /// Deliver only a part of each batch; `None`: all of it.
    pub part: Option<BatchPart>,
}

/// A part of each batch, for one of several processes that share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchPart {
    /// Which part, from 0.
    pub index: usize,
    /// How many parts there are.
    pub of: usize,
}

impl BatchPart {
    /// Images that every part has; a batch of fewer is delivered whole.
    pub const FEWEST: usize = 2;

    /// The places of this part in a batch of `images`; `None`: too few to be shared.
    pub fn places(&self, images: usize) -> Option<Range<usize>> {
        let (index, of) = (self.index, self.of.max(1));
        (images >= Self::FEWEST * of).then(|| index * images / of..(index + 1) * images / of)
    }
}

impl LoaderOptions {
    /// All images in order, as they are.
    pub fn evaluation(batch_size: usize) -> Self {
        Self {
            batch_size,
            shuffle: false,
            augment: Augment::None,
            seed: 0,
            epoch: 0,
            start_batch: 0,
            drop_last: false,
            prefetch: 2,
            threads: None,
            part: None,
        }
    }

    /// Shuffled, with the augmentation that is usual for the data set.
    pub fn training(batch_size: usize, dataset: &Dataset, seed: u64, epoch: u64) -> Self {
        Self {
            shuffle: true,
            augment: dataset.default_augment(),
            seed,
            epoch,
            ..Self::evaluation(batch_size)
        }
    }
}

/// Iterates over the batches of one epoch, from `start_batch` on. The first
/// error ends the epoch. Behind the images of a part stands the image that follows them
/// in the batch; the first one follows the last.
pub struct Loader {
    maker: Maker,
    next: usize,
    end: usize,
    ahead: Option<Ahead>,
    spare: Vec<Images>,
}

/// The background thread and the ways to and from it.
struct Ahead {
    ready: Receiver<Result<Images, DataError>>,
    used: Sender<Images>,
    thread: JoinHandle<()>,
}

impl Loader {
    /// Starts an epoch at `start_batch`. With `prefetch`, decoding begins now.
    pub fn new(dataset: &Dataset, options: LoaderOptions) -> Result<Self, DataError> {
        if options.batch_size == 0 {
            return Err(DataError::Setting {
                name: "batch size",
                expected: "at least 1",
                got: "0".into(),
            });
        }
        options.augment.check(dataset.shape())?;
        let len = dataset.len();
        let end = match options.drop_last {
            true => len / options.batch_size,
            false => len.div_ceil(options.batch_size),
        };
        let next = options.start_batch.min(end);
        let prefetch = if dataset.decodes() {
            options.prefetch
        } else {
            0
        };
        let maker = Maker::new(dataset.clone(), options)?;
        let mut loader = Self {
            maker,
            next,
            end,
            ahead: None,
            spare: Vec::new(),
        };
        if prefetch > 0 && next < end {
            loader.ahead = Some(loader.start(prefetch)?);
        }
        Ok(loader)
    }

    /// The number of batches still to come.
    pub fn remaining(&self) -> usize {
        self.end - self.next
    }

    /// Gives a batch's buffers back for a later batch.
    pub fn recycle(&mut self, batch: Images) {
        match &self.ahead {
            // The thread may be done already; then nobody needs the buffers.
            Some(ahead) => drop(ahead.used.send(batch)),
            None => self.spare.push(batch),
        }
    }

    fn start(&self, prefetch: usize) -> Result<Ahead, DataError> {
        // One batch waits in the thread's hands, the others in the channel.
        let (send, ready): (SyncSender<_>, _) = sync_channel(prefetch - 1);
        let (used, spare) = channel();
        let (maker, range) = (self.maker.clone(), self.next..self.end);
        let thread = std::thread::Builder::new()
            .name("heatsmooth-loader".into())
            .spawn(move || {
                for number in range {
                    let batch = maker.make(number, spare.try_recv().ok());
                    let failed = batch.is_err();
                    // A closed channel means that the loader was dropped.
                    if send.send(batch).is_err() || failed {
                        return;
                    }
                }
            })
            .map_err(DataError::io("start a thread for", maker_name(&self.maker)))?;
        Ok(Ahead {
            ready,
            used,
            thread,
        })
    }
}

fn maker_name(maker: &Maker) -> &str {
    maker.dataset.name()
}

impl Iterator for Loader {
    type Item = Result<Images, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.next == self.end {
            return None;
        }
        let batch = match &self.ahead {
            None => self.maker.make(self.next, self.spare.pop()),
            Some(ahead) => match ahead.ready.recv() {
                Ok(batch) => batch,
                // The thread ends early only by a panic: pass it on.
                Err(_) => match self.ahead.take().map(|ahead| ahead.thread.join()) {
                    Some(Err(panic)) => std::panic::resume_unwind(panic),
                    _ => return None,
                },
            },
        };
        self.next = if batch.is_ok() {
            self.next + 1
        } else {
            self.end
        };
        Some(batch)
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        if let Some(ahead) = self.ahead.take() {
            drop((ahead.ready, ahead.used));
            // Its panic, if any, concerns batches that nobody asked for.
            drop(ahead.thread.join());
        }
    }
}

/// Makes any batch of the epoch.
#[derive(Clone)]
struct Maker {
    dataset: Dataset,
    options: LoaderOptions,
    order: Option<std::sync::Arc<[u32]>>,
    pool: Option<std::sync::Arc<rayon::ThreadPool>>,
}

impl Maker {
    fn new(dataset: Dataset, options: LoaderOptions) -> Result<Self, DataError> {
        let order = options
            .shuffle
            .then(|| permutation(dataset.len(), options.seed, options.epoch).into());
        let pool = match options.threads {
            Some(threads) if dataset.decodes() => {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
                let pool = pool.build().map_err(|error| DataError::Setting {
                    name: "threads",
                    expected: "a number of threads that can be started",
                    got: format!("{threads} ({error})"),
                })?;
                Some(std::sync::Arc::new(pool))
            }
            _ => None,
        };
        Ok(Self {
            dataset,
            options,
            order,
            pool,
        })
    }

    /// The batch of this number, in the buffers of a used one if there is one.
    fn make(&self, number: usize, spare: Option<Images>) -> Result<Images, DataError> {
        let size = self.options.batch_size;
        let first = number * size;
        let range = first..(first + size).min(self.dataset.len());
        let mut batch = spare.unwrap_or_else(|| Images::new(self.dataset.shape()));
        batch.indices.clear();
        let count = range.len();
        let part = self.options.part.and_then(|part| part.places(count));
        let places = match part {
            Some(part) => part.start..part.end + 1,
            None => 0..count,
        };
        batch.indices.extend(places.map(|place| {
            let place = range.start + place % count;
            match &self.order {
                Some(order) => order[place],
                None => place as u32,
            }
        }));
        self.dataset.put_targets(&mut batch);
        let image_len = batch.shape.len();
        batch.pixels.resize(batch.indices.len() * image_len, 0.0);

        let options = &self.options;
        let read = |(&index, out): (&u32, &mut [f32])| {
            let (augment, seed, epoch) = (&options.augment, options.seed, options.epoch);
            self.dataset
                .read_augmented(index as usize, augment, seed, epoch, out)
        };
        let (indices, pixels) = (&batch.indices, &mut batch.pixels);
        if self.dataset.decodes() {
            let mut all = || {
                let images = pixels.par_chunks_exact_mut(image_len);
                indices.par_iter().zip(images).try_for_each(read)
            };
            match &self.pool {
                Some(pool) => pool.install(all)?,
                None => all()?,
            }
        } else {
            let images = pixels.chunks_exact_mut(image_len);
            indices.iter().zip(images).try_for_each(read)?;
        }
        Ok(batch)
    }
}
