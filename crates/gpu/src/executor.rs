//! The verbs on a device.

use std::sync::{Arc, Mutex, PoisonError};

use burn_backend::{Backend, DType, FloatDType};
use network::{
    Classify, DeviceError, Executor, Gradients, Graph, HostGradients, Mode, Model, ModelInfo,
    Noise, NoisyImage, Op, Parameters, Precision, Role, SgdStep, Shape, Tape, TrainingState,
    fold_batch_norms,
};

use crate::backward::{DeviceGradients, Wanted};
use crate::forward::DeviceTape;
use crate::fused::{CopyKey, Descent, Fused};
use crate::memory::Batches;
use crate::net::{Network, upload};
use crate::place::Place;
use crate::tensor::Tensor;

/// Passes that are handed to a device together.
const PASSES: usize = 4;

/// Keys of all copies of a batch, one behind the other.
fn keys(batch: &[NoisyImage<'_>]) -> Vec<CopyKey> {
    let copies = batch.iter().enumerate().flat_map(|(place, noisy)| {
        (0..noisy.count as u32).map(move |copy| CopyKey {
            place: place as u32,
            image: noisy.image,
            sample: noisy.first_sample.wrapping_add(copy),
        })
    });
    copies.collect()
}

/// A precision as burn names it.
fn dtype(precision: Precision) -> FloatDType {
    match precision {
        Precision::F32 => FloatDType::F32,
        Precision::F16 => FloatDType::F16,
        Precision::Bf16 => FloatDType::BF16,
    }
}

/// Whether a device computes in a precision.
pub(crate) fn supports<B: Backend>(device: &B::Device, precision: Precision) -> bool {
    B::supports_dtype(device, DType::from(dtype(precision)))
}

/// A network on a device of one of burn's backends.
#[derive(Debug)]
pub struct Burn<B: Fused> {
    place: Place<B>,
    precision: Precision,
    network: Network<B>,
    /// At rest (`None`) until the first step.
    velocity: Option<Vec<Option<Tensor<B>>>>,
    /// Without batch norms and in the precision of passes that keep nothing; made
    /// when it is asked for.
    inference: Mutex<Option<Arc<Network<B>>>>,
    batches: Batches,
}

impl<B: Fused> Burn<B> {
    /// Puts a model on a device, which is called `name` in errors and has so many
    /// bytes of memory, if it says so.
    ///
    /// # Errors
    /// A node or a precision that the device does not know; a device without room for
    /// one image; a device that fails.
    pub fn new(
        model: &Model,
        device: B::Device,
        name: &str,
        memory: Option<u64>,
        precision: Precision,
    ) -> Result<Self, DeviceError> {
        let name = name.to_owned();
        let place = Place { device, name };
        place.clone().guard(|| {
            if !supports::<B>(&place.device, precision) {
                let reason = format!("it cannot compute in {}", precision.name());
                return Err(place.failure(&reason));
            }
            let network = Network::new(&place, model)?;
            let (graph, last_reader) = (&network.graph, &network.last_reader);
            Ok(Self {
                batches: Batches::fit(graph, last_reader, &place.name, memory)?,
                place,
                precision,
                network,
                velocity: None,
                inference: Mutex::default(),
            })
        })
    }

    /// Forgets what was derived from the parameters.
    fn parameters_change(&mut self) {
        *(self.inference.get_mut()).unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// NHWC images from the host.
    fn upload(&self, images: &[f32]) -> Tensor<B> {
        let Shape {
            height,
            width,
            channels,
        } = self.input();
        let count = images.len() / self.input().len();
        let images = self.place.upload(images, [count, height, width, channels]);
        images.permute(&[0, 3, 1, 2])
    }

    /// The clean images of a batch, `images x pixels`.
    fn upload_clean(&self, batch: &[NoisyImage<'_>]) -> Tensor<B> {
        let pixels = batch.iter().flat_map(|noisy| noisy.pixels).copied();
        let pixels: Vec<f32> = pixels.collect();
        self.place
            .upload(&pixels, [batch.len(), self.input().len()])
    }

    /// Noisy copies of such images, made on the device.
    fn noisy_images(&self, noise: &Noise, images: &Tensor<B>, copies: &[CopyKey]) -> Tensor<B> {
        let Shape {
            height,
            width,
            channels,
        } = self.input();
        let noisy = Tensor::<B>(B::noisy(noise, images.0.clone(), copies));
        let noisy = noisy.reshape([copies.len(), height, width, channels]);
        noisy.permute(&[0, 3, 1, 2])
    }

    /// A pass with a tape, and its logits on the host.
    fn record(&self, images: Tensor<B>, mode: Mode) -> Result<(Vec<f32>, Tape), DeviceError> {
        let (logits, tape) = self.network.record(images, mode);
        Ok((self.download(logits)?, Tape::new(tape)))
    }

    /// The network for passes that keep nothing.
    fn inference(&self) -> Result<Arc<Network<B>>, DeviceError> {
        let mut inference = self
            .inference
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(network) = &*inference {
            return Ok(Arc::clone(network));
        }
        let model = Model {
            graph: self.network.graph.clone(),
            parameters: self.parameters()?,
            info: ModelInfo::default(),
        };
        let folded = Network::new(&self.place, &fold_batch_norms(&model))?;
        let dtype = dtype(self.precision);
        let cast = |tensor: Tensor<B>| tensor.cast(dtype);
        let network = Arc::new(Network {
            parameters: folded.parameters.into_iter().map(cast).collect(),
            constants: (folded.constants.into_iter())
                .map(|constants| constants.cast(dtype))
                .collect(),
            ..folded
        });
        *inference = Some(Arc::clone(&network));
        Ok(network)
    }

    /// Logits of a pass that keeps nothing, still on the device.
    fn pass(&self, network: &Network<B>, x: Tensor<B>) -> Tensor<B> {
        let logits = network.evaluate(x.cast(dtype(self.precision)));
        logits.cast(FloatDType::F32)
    }

    /// The tape in its own form, and the cotangent on the device.
    fn own<'a>(
        &self,
        tape: &'a Tape,
        cotangent: &[f32],
    ) -> Result<(&'a DeviceTape<B>, Tensor<B>), DeviceError> {
        let tape: &DeviceTape<B> = tape.of()?;
        let classes = self.classes();
        DeviceError::length("cotangent", tape.images * classes, cotangent.len())?;
        let shape = self.network.graph.shape(self.network.graph.output());
        let dims = [tape.images, shape.height, shape.width, shape.channels];
        let cotangent = self.place.upload(cotangent, dims);
        Ok((tape, cotangent.permute(&[0, 3, 1, 2])))
    }

    /// Numbers of activations in the order of the host.
    fn download(&self, values: Tensor<B>) -> Result<Vec<f32>, DeviceError> {
        self.place.download(values.permute(&[0, 2, 3, 1]))
    }

    /// What is trained, on the host; zeros where there is nothing yet.
    fn trained(&self, values: &[Option<Tensor<B>>]) -> Result<HostGradients, DeviceError> {
        let mut host = HostGradients::zeros(&self.network.graph);
        let given = values.iter().flatten().cloned().collect();
        let mut given = self.place.download_all(given)?.into_iter();
        let places = host.iter_mut().zip(values);
        for (place, _) in places.filter(|(_, value)| value.is_some()) {
            place.copy_from_slice(&given.next().unwrap_or_default());
        }
        Ok(host)
    }

    /// The same on the device.
    fn upload_trained(&self, host: &HostGradients) -> Vec<Option<Tensor<B>>> {
        let specs = self.network.graph.parameters().iter().zip(host.iter());
        specs
            .map(|(spec, values)| {
                let trained = spec.role.trainable();
                trained.then(|| self.place.upload(values, spec.shape.clone()))
            })
            .collect()
    }
}

impl<B: Fused> Classify for Burn<B> {
    fn input(&self) -> Shape {
        self.network.graph.input()
    }

    fn classes(&self) -> usize {
        self.network.graph.classes()
    }

    fn logits(&self, images: &[f32], logits: &mut [f32]) -> Result<(), DeviceError> {
        let count = self.network.graph.count_images(images)?;
        let classes = self.classes();
        DeviceError::length("logits", count * classes, logits.len())?;
        self.place.guard(|| {
            let network = self.inference()?;
            let passes = images.chunks(self.batches.fixed * self.input().len());
            let passes = passes.map(|images| self.pass(&network, self.upload(images)));
            let passes: Vec<_> = passes.collect();
            let places = logits.chunks_mut(self.batches.fixed * classes);
            for (place, found) in places.zip(passes) {
                place.copy_from_slice(&self.download(found)?);
            }
            Ok(())
        })
    }

    fn noisy_logits(
        &self,
        noise: &Noise,
        batch: &[NoisyImage<'_>],
        logits: &mut [f32],
    ) -> Result<(), DeviceError> {
        let count = NoisyImage::count_all(batch, self.input())?;
        let classes = self.classes();
        DeviceError::length("logits", count * classes, logits.len())?;
        if count == 0 {
            return Ok(());
        }
        let mut copies = keys(batch);
        // Every pass has the same number of images; the last copy fills it up.
        let fixed = self.batches.fixed;
        copies.resize(count.next_multiple_of(fixed), copies[count - 1]);
        self.place.guard(|| {
            let network = self.inference()?;
            let images = self.upload_clean(batch);
            let pass = |copies| self.pass(&network, self.noisy_images(noise, &images, copies));
            let places = logits.chunks_mut(PASSES * fixed * classes);
            for (places, copies) in places.zip(copies.chunks(PASSES * fixed)) {
                let found: Vec<_> = copies.chunks(fixed).map(pass).collect();
                for (place, found) in places.chunks_mut(fixed * classes).zip(found) {
                    let found = self.download(found)?;
                    place.copy_from_slice(&found[..place.len()]);
                }
            }
            Ok(())
        })
    }

    fn batch(&self) -> usize {
        PASSES * self.batches.fixed
    }
}

impl<B: Fused> Executor for Burn<B> {
    fn graph(&self) -> &Graph {
        &self.network.graph
    }

    fn forward(&self, images: &[f32], mode: Mode) -> Result<(Vec<f32>, Tape), DeviceError> {
        self.network.graph.count_images(images)?;
        self.place.guard(|| self.record(self.upload(images), mode))
    }

    fn forward_noisy(
        &self,
        noise: &Noise,
        batch: &[NoisyImage<'_>],
        mode: Mode,
    ) -> Result<(Vec<f32>, Tape), DeviceError> {
        NoisyImage::count_all(batch, self.input())?;
        self.place.guard(|| {
            let images = self.upload_clean(batch);
            self.record(self.noisy_images(noise, &images, &keys(batch)), mode)
        })
    }

    fn input_gradient(&self, tape: &Tape, cotangent: &[f32]) -> Result<Vec<f32>, DeviceError> {
        self.place.guard(|| {
            let (tape, cotangent) = self.own(tape, cotangent)?;
            let (network, nothing) = (&self.network, &mut vec![]);
            match network.pull_back(tape, cotangent, Wanted::Images, nothing) {
                Some(dx) => self.download(dx),
                None => Ok(vec![0.0; tape.images * self.input().len()]),
            }
        })
    }

    fn parameter_gradient(
        &self,
        tape: &Tape,
        cotangent: &[f32],
        gradients: &mut Gradients,
    ) -> Result<(), DeviceError> {
        let (tape, cotangent) = self.own(tape, cotangent)?;
        let gradients: &mut DeviceGradients<B> = gradients.of_mut()?;
        self.place.guard(|| {
            (self.network).pull_back(tape, cotangent, Wanted::Parameters, gradients);
            Ok(())
        })
    }

    fn gradients(&self) -> Result<Gradients, DeviceError> {
        let none: DeviceGradients<B> = vec![None; self.network.parameters.len()];
        Ok(Gradients::new(none))
    }

    fn read_gradients(&self, gradients: &Gradients) -> Result<HostGradients, DeviceError> {
        let gradients: &DeviceGradients<B> = gradients.of()?;
        self.place.guard(|| self.trained(gradients))
    }

    fn write_gradients(
        &self,
        values: HostGradients,
        gradients: &mut Gradients,
    ) -> Result<(), DeviceError> {
        let gradients: &mut DeviceGradients<B> = gradients.of_mut()?;
        self.place.guard(|| {
            *gradients = self.upload_trained(&values);
            Ok(())
        })
    }

    fn update_running_statistics(&mut self, tape: &Tape) -> Result<(), DeviceError> {
        let tape: &DeviceTape<B> = tape.of()?;
        self.parameters_change();
        let place = self.place.clone();
        place.guard(|| {
            if tape.mode != Mode::Train {
                return Ok(());
            }
            for (id, moments) in tape.moments.iter().enumerate() {
                let (Some(batch), Op::BatchNorm { momentum, .. }) =
                    (moments, &self.network.graph.nodes()[id].op)
                else {
                    continue;
                };
                let rows = tape.images * self.network.graph.shape(id).pixels();
                let unbias = rows as f32 / (rows.max(2) - 1) as f32;
                let end = self.network.graph.parameters_of(id).end;
                let running = &mut self.network.parameters[end - 2..end];
                let batch = [(&batch.mean, 1.0), (&batch.variance, unbias)];
                for (running, (batch, factor)) in running.iter_mut().zip(batch) {
                    let kept = (running.0.clone(), 1.0 - momentum);
                    *running = Tensor(B::blend(kept, (batch.clone(), momentum * factor)));
                }
            }
            Ok(())
        })
    }

    fn optimise(&mut self, step: &SgdStep, gradients: &mut Gradients) -> Result<f64, DeviceError> {
        let own: &mut DeviceGradients<B> = gradients.of_mut()?;
        self.parameters_change();
        let place = self.place.clone();
        place.guard(|| {
            let taken: Vec<_> = own.iter_mut().map(Option::take).collect();
            let given = taken.iter().flatten().map(|gradient| gradient.0.clone());
            let given: Vec<_> = given.collect();
            let squares = match given.is_empty() {
                true => vec![],
                false => place.download(Tensor(B::squares(&given)))?,
            };
            let norm = squares.iter().map(|&s| f64::from(s)).sum::<f64>().sqrt();
            if !norm.is_finite() {
                return Ok(norm);
            }
            let shrink = match step.clip {
                Some(clip) if norm > f64::from(clip) => (f64::from(clip) / norm) as f32,
                _ => 1.0,
            };
            let count = taken.len();
            let velocities = self.velocity.get_or_insert_with(|| vec![None; count]);
            let specs = self.network.graph.parameters().iter().zip(velocities);
            let values = self.network.parameters.iter_mut().zip(taken);
            for ((spec, velocity), (value, gradient)) in specs.zip(values) {
                if !spec.role.trainable() {
                    continue;
                }
                let decay = match spec.role {
                    Role::Weight => step.weight_decay,
                    _ => 0.0,
                };
                let by = Descent {
                    momentum: step.momentum,
                    shrink,
                    decay,
                    rate: step.rate,
                };
                let [next, moved] = B::descend(
                    value.0.clone(),
                    velocity.take().map(|velocity| velocity.0),
                    gradient.map(|gradient| gradient.0),
                    by,
                );
                *value = Tensor(next);
                *velocity = Some(Tensor(moved));
            }
            Ok(norm)
        })
    }

    fn parameters(&self) -> Result<Parameters, DeviceError> {
        self.place.guard(|| {
            let values = self.place.download_all(self.network.parameters.clone())?;
            Ok(Parameters::new(&self.network.graph, values))
        })
    }

    fn state(&self) -> Result<TrainingState, DeviceError> {
        Ok(TrainingState {
            parameters: self.parameters()?,
            velocity: self
                .place
                .guard(|| self.trained(self.velocity.as_deref().unwrap_or_default()))?,
        })
    }

    fn restore(&mut self, state: TrainingState) -> Result<(), DeviceError> {
        self.parameters_change();
        let place = self.place.clone();
        place.guard(|| {
            self.velocity = Some(self.upload_trained(&state.velocity));
            self.network.parameters = upload(&place, &self.network.graph, &state.parameters);
            Ok(())
        })
    }

    /// Drawn by the host, where they are wanted: the same to the bit as on the CPU.
    fn noisy(&self, noise: &Noise, batch: &[NoisyImage<'_>]) -> Result<Vec<f32>, DeviceError> {
        NoisyImage::count_all(batch, self.input())?;
        Ok(noise.copies(batch))
    }

    fn taped_batch(&self) -> usize {
        self.batches.taped
    }
}
