//! Evaluating noisy copies of many images: batches that mix images.
//!
//! Every image has a task that says which samples it needs next and is fed their
//! logits in order. The loop fills each batch from the oldest unfinished image
//! on, so images finish nearly in order, cores are never idle at an image's end, and
//! memory depends on neither the number of samples nor that of images. What a
//! task is fed does not depend on the batches.

use std::collections::VecDeque;
use std::time::Instant;

use network::{Classify, Images, Noise, NoisyImage, Purpose};

use settings::SettingError;

use crate::CertifyError;
use crate::image::{Image, check, finite, singles};
use crate::observer::OutcomeObserver;

/// Samples that a task needs: `count` copies from number `first` on.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Request {
    pub noise: Noise,
    pub first: u32,
    pub count: u32,
}

/// The work on one image.
pub(crate) trait Task {
    /// What is needed next, always derived from what was received; `None`:
    /// finished.
    fn request(&self) -> Option<Request>;

    /// The logits of the next sample, all finite.
    fn receive(&mut self, logits: &[f32]);
}

/// Wall-clock seconds, shared among the images of a batch by their samples.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Seconds {
    /// The clean pass.
    pub clean: f64,
    /// Noisy copies for choosing a class.
    pub selection: f64,
    /// All other noisy copies.
    pub other: f64,
}

impl Seconds {
    pub(crate) fn total(&self) -> f64 {
        self.clean + self.selection + self.other
    }
}

/// How to turn images into tasks.
pub(crate) trait Start {
    /// The work on one image.
    type Task: Task;

    /// About how many samples a new task asks for; 0: none.
    fn first_request(&self) -> u32;

    /// Tasks of some images, from their clean logits.
    fn start(&mut self, images: &[Image], logits: &[f32]) -> Vec<Result<Self::Task, CertifyError>>;
}

/// An image whose task has finished.
pub(crate) struct Finished<T> {
    pub image: Image,
    pub task: T,
    pub seconds: Seconds,
}

/// An image in flight.
struct Slot<T> {
    image: Image,
    /// An error is reported when all images before it have been delivered, so
    /// that what comes out does not depend on the batches.
    task: Result<T, CertifyError>,
    seconds: Seconds,
}

impl<T: Task> Slot<T> {
    fn request(&self) -> Option<Request> {
        self.task.as_ref().ok().and_then(Task::request)
    }
}

/// Images that are made ready at once, so that their clean passes share cores.
const AHEAD: usize = 8;

/// Runs the tasks of all images; at most `batch` noisy copies are evaluated at
/// once. Results are delivered in order.
pub(crate) fn sample_all<S: Start>(
    model: &(impl Classify + ?Sized),
    images: impl IntoIterator<Item = Images>,
    start: &mut S,
    batch: usize,
    observer: &mut impl OutcomeObserver<Finished<S::Task>>,
) -> Result<(), CertifyError> {
    if batch == 0 {
        return Err(SettingError::value("batch", 0, "at least 1").into());
    }
    let classes = model.classes();
    let first_request = (start.first_request() as usize).max(1);
    let mut images = singles(images);
    let mut exhausted = false;
    let mut flight: VecDeque<Slot<S::Task>> = VecDeque::new();
    let mut logits = vec![0.0_f32; batch * classes];
    loop {
        let mut requests = Vec::new();
        let mut room = batch;
        fill(&mut requests, &mut room, &flight, 0);
        if room > 0 && !exhausted {
            let more = room.div_ceil(first_request).max(AHEAD).min(batch);
            let old = flight.len();
            exhausted = !pull(model, &mut images, start, more, &mut flight)?;
            fill(&mut requests, &mut room, &flight, old);
        }
        if flight.is_empty() {
            return Ok(());
        }
        evaluate(model, &requests, &mut flight, &mut logits)?;
        observer.samples(batch - room);
        while flight.front().is_some_and(|slot| slot.request().is_none()) {
            let Some(slot) = flight.pop_front() else {
                break;
            };
            let Slot {
                image,
                task,
                seconds,
            } = slot;
            if observer
                .outcome(Finished {
                    image,
                    task: task?,
                    seconds,
                })
                .is_break()
            {
                return Ok(());
            }
        }
    }
}

/// Grants requests of the slots from number `from` on, oldest first.
fn fill<T: Task>(
    requests: &mut Vec<(usize, Request)>,
    room: &mut usize,
    flight: &VecDeque<Slot<T>>,
    from: usize,
) {
    for (slot, state) in flight.iter().enumerate().skip(from) {
        if *room == 0 {
            break;
        }
        if let Some(request) = state.request() {
            let count = (request.count as usize).min(*room);
            *room -= count;
            requests.push((
                slot,
                Request {
                    count: count as u32,
                    ..request
                },
            ));
        }
    }
}

/// Makes tasks of up to `more` images; false if no more can follow.
fn pull<S: Start>(
    model: &(impl Classify + ?Sized),
    images: &mut impl Iterator<Item = Image>,
    start: &mut S,
    more: usize,
    flight: &mut VecDeque<Slot<S::Task>>,
) -> Result<bool, CertifyError> {
    let (mut group, mut pixels) = (Vec::new(), Vec::new());
    let mut refused = None;
    for image in images.take(more) {
        if let Err(error) = check(&image, model) {
            refused = Some((image, error));
            break;
        }
        pixels.extend_from_slice(&image.pixels);
        group.push(image);
    }
    let mut go_on = group.len() == more;
    if !group.is_empty() {
        let clock = Instant::now();
        let mut logits = vec![0.0; group.len() * model.classes()];
        model.logits(&pixels, &mut logits)?;
        let tasks = start.start(&group, &logits);
        let clean = clock.elapsed().as_secs_f64() / group.len() as f64;
        let rows = logits.chunks_exact(model.classes());
        for ((image, task), row) in group.into_iter().zip(tasks).zip(rows) {
            let task = finite(row, image.index).and(task);
            go_on &= task.is_ok();
            flight.push_back(Slot {
                image,
                task,
                seconds: Seconds {
                    clean,
                    ..Seconds::default()
                },
            });
        }
    }
    flight.extend(refused.map(|(image, error)| Slot {
        image,
        task: Err(error),
        seconds: Seconds::default(),
    }));
    Ok(go_on)
}

/// Evaluates the granted requests and feeds the tasks, one call of the model for
/// each kind of noise.
fn evaluate<T: Task>(
    model: &(impl Classify + ?Sized),
    requests: &[(usize, Request)],
    flight: &mut VecDeque<Slot<T>>,
    logits: &mut [f32],
) -> Result<(), CertifyError> {
    let mut noises: Vec<Noise> = Vec::new();
    for (_, request) in requests {
        if !noises.contains(&request.noise) {
            noises.push(request.noise.clone());
        }
    }
    let classes = model.classes();
    for noise in noises {
        let of_noise = || {
            requests
                .iter()
                .filter(|(_, request)| request.noise == noise)
        };
        let batch: Vec<NoisyImage<'_>> = of_noise()
            .map(|(slot, request)| NoisyImage {
                pixels: &flight[*slot].image.pixels,
                image: flight[*slot].image.index,
                first_sample: request.first,
                count: request.count as usize,
            })
            .collect();
        let total: usize = batch.iter().map(|noisy| noisy.count).sum();
        let clock = Instant::now();
        model.noisy_logits(&noise, &batch, &mut logits[..total * classes])?;
        let seconds_a_sample = clock.elapsed().as_secs_f64() / total as f64;
        let mut rows = logits.chunks_exact(classes);
        for (slot, request) in of_noise() {
            flight[*slot].feed(&noise, request.count, seconds_a_sample, &mut rows);
        }
    }
    Ok(())
}

impl<T: Task> Slot<T> {
    fn feed<'r>(
        &mut self,
        noise: &Noise,
        count: u32,
        seconds_a_sample: f64,
        rows: &mut impl Iterator<Item = &'r [f32]>,
    ) {
        let spent = match noise.purpose {
            Purpose::Selection => &mut self.seconds.selection,
            _ => &mut self.seconds.other,
        };
        *spent += seconds_a_sample * f64::from(count);
        for row in rows.take(count as usize) {
            if let Err(error) = finite(row, self.image.index) {
                self.task = Err(error);
            } else if let Ok(task) = &mut self.task {
                task.receive(row);
            }
        }
        if self.request().is_none() {
            self.image.pixels = Vec::new(); // no longer needed
        }
    }
}
