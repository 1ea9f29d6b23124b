//! Several devices of one machine that share the passes of a measurement.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread;

use network::{
    Classify, DeviceError, Executor, Gradients, Graph, HostGradients, Mode, Model, Noise,
    NoisyImage, Parameters, Precision, SgdStep, Shape, Tape, TrainingState,
};

use super::Engine;

/// Several devices as one.
pub(super) struct Several {
    first: Arc<dyn Engine>,
    others: Vec<Arc<dyn Engine>>,
}

impl Several {
    /// One device, or several as one; none of no device.
    pub fn joined(engines: Vec<Arc<dyn Engine>>) -> Option<Arc<dyn Engine>> {
        let mut engines = engines.into_iter();
        let first = engines.next()?;
        let others: Vec<_> = engines.collect();
        Some(match others.is_empty() {
            true => first,
            false => Arc::new(Self { first, others }),
        })
    }

    fn all(&self) -> impl Iterator<Item = &Arc<dyn Engine>> {
        std::iter::once(&self.first).chain(&self.others)
    }
}

impl Engine for Several {
    fn name(&self) -> String {
        let names: Vec<String> = self.all().map(|engine| engine.name()).collect();
        names.join("; ")
    }

    fn load(&self, model: &Model) -> Result<Box<dyn Executor>, DeviceError> {
        let others = self.others.iter().map(|engine| engine.load(model));
        Ok(Box::new(Shared {
            first: self.first.load(model)?,
            others: others.collect::<Result<_, _>>()?,
        }))
    }

    fn in_precision(&self, precision: Precision) -> Option<Arc<dyn Engine>> {
        let engines = self.all().map(|engine| engine.in_precision(precision));
        Self::joined(engines.collect::<Option<_>>()?)
    }
}

/// One network on several devices. Passes that keep nothing are split over them;
/// those with a tape run on the first. None of them is trained.
struct Shared {
    first: Box<dyn Executor>,
    others: Vec<Box<dyn Executor>>,
}

impl Shared {
    fn trains_alone() -> DeviceError {
        DeviceError::Failed {
            device: "several devices".into(),
            reason: "they measure together, but only one trains".into(),
        }
    }

    /// Does one part of some work on every device; `parts` are as many as devices.
    fn each<P: Send>(
        &self,
        parts: Vec<P>,
        work: impl Fn(&dyn Executor, P) -> Result<(), DeviceError> + Sync,
    ) -> Result<(), DeviceError> {
        let work = &work;
        thread::scope(|scope| {
            let mut parts = parts.into_iter();
            let own = parts.next();
            let devices = self.others.iter().zip(parts);
            let others: Vec<_> = devices
                .map(|(executor, part)| {
                    // An executor may be lent to another thread, a box of one may not.
                    let executor: &dyn Executor = &**executor;
                    scope.spawn(move || work(executor, part))
                })
                .collect();
            let mut done = own.map_or(Ok(()), |part| work(&*self.first, part));
            for other in others {
                let other = other.join().unwrap_or_else(|panic| resume_unwind(panic));
                done = done.and(other);
            }
            done
        })
    }

    fn devices(&self) -> usize {
        1 + self.others.len()
    }
}

impl Classify for Shared {
    fn input(&self) -> Shape {
        self.first.input()
    }

    fn classes(&self) -> usize {
        self.first.classes()
    }

    fn logits(&self, images: &[f32], logits: &mut [f32]) -> Result<(), DeviceError> {
        let count = self.graph().count_images(images)?;
        DeviceError::length("logits", count * self.classes(), logits.len())?;
        let share = count.div_ceil(self.devices()).max(1);
        let images = images.chunks(share * self.input().len());
        let parts = images.zip(logits.chunks_mut(share * self.classes()));
        self.each(parts.collect(), |executor, (images, logits)| {
            executor.logits(images, logits)
        })
    }

    fn noisy_logits(
        &self,
        noise: &Noise,
        batch: &[NoisyImage<'_>],
        logits: &mut [f32],
    ) -> Result<(), DeviceError> {
        let count = NoisyImage::count_all(batch, self.input())?;
        DeviceError::length("logits", count * self.classes(), logits.len())?;
        let share = count.div_ceil(self.devices()).max(1);
        let batches = shares(batch, share).into_iter();
        let parts = batches.zip(logits.chunks_mut(share * self.classes()));
        self.each(parts.collect(), |executor, (batch, logits)| {
            executor.noisy_logits(noise, &batch, logits)
        })
    }

    fn batch(&self) -> usize {
        self.devices() * self.first.batch()
    }
}

/// A batch cut into batches of `share` copies, the last of fewer.
fn shares<'a>(batch: &[NoisyImage<'a>], share: usize) -> Vec<Vec<NoisyImage<'a>>> {
    let mut shares: Vec<Vec<NoisyImage<'a>>> = vec![];
    let mut room = 0;
    for noisy in batch {
        let mut rest = *noisy;
        while rest.count > 0 {
            if room == 0 {
                shares.push(vec![]);
                room = share;
            }
            let count = rest.count.min(room);
            let part = NoisyImage { count, ..rest };
            if let Some(last) = shares.last_mut() {
                last.push(part);
            }
            rest.first_sample = rest.first_sample.wrapping_add(count as u32);
            rest.count -= count;
            room -= count;
        }
    }
    shares
}

impl Executor for Shared {
    fn graph(&self) -> &Graph {
        self.first.graph()
    }

    fn forward(&self, images: &[f32], mode: Mode) -> Result<(Vec<f32>, Tape), DeviceError> {
        self.first.forward(images, mode)
    }

    fn forward_noisy(
        &self,
        noise: &Noise,
        batch: &[NoisyImage<'_>],
        mode: Mode,
    ) -> Result<(Vec<f32>, Tape), DeviceError> {
        self.first.forward_noisy(noise, batch, mode)
    }

    fn input_gradient(&self, tape: &Tape, cotangent: &[f32]) -> Result<Vec<f32>, DeviceError> {
        self.first.input_gradient(tape, cotangent)
    }

    fn parameter_gradient(
        &self,
        _: &Tape,
        _: &[f32],
        _: &mut Gradients,
    ) -> Result<(), DeviceError> {
        Err(Self::trains_alone())
    }

    fn gradients(&self) -> Result<Gradients, DeviceError> {
        Err(Self::trains_alone())
    }

    fn read_gradients(&self, _: &Gradients) -> Result<HostGradients, DeviceError> {
        Err(Self::trains_alone())
    }

    fn write_gradients(&self, _: HostGradients, _: &mut Gradients) -> Result<(), DeviceError> {
        Err(Self::trains_alone())
    }

    fn update_running_statistics(&mut self, _: &Tape) -> Result<(), DeviceError> {
        Err(Self::trains_alone())
    }

    fn optimise(&mut self, _: &SgdStep, _: &mut Gradients) -> Result<f64, DeviceError> {
        Err(Self::trains_alone())
    }

    fn parameters(&self) -> Result<Parameters, DeviceError> {
        self.first.parameters()
    }

    fn state(&self) -> Result<TrainingState, DeviceError> {
        self.first.state()
    }

    fn restore(&mut self, _: TrainingState) -> Result<(), DeviceError> {
        Err(Self::trains_alone())
    }

    fn noisy(&self, noise: &Noise, batch: &[NoisyImage<'_>]) -> Result<Vec<f32>, DeviceError> {
        self.first.noisy(noise, batch)
    }

    fn taped_batch(&self) -> usize {
        self.first.taped_batch()
    }
}
