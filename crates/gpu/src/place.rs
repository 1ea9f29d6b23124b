//! A device as a place for numbers: there and back, and what can go wrong on the way.

use std::panic::{AssertUnwindSafe, catch_unwind};

use burn_backend::tensor::{FloatTensor, IntTensor};
use burn_backend::{Backend, DType, FloatDType, Shape, TensorData, read_sync};
use network::DeviceError;

use crate::tensor::Tensor;

/// A device of a backend, and its name for errors.
#[derive(Clone, Debug)]
pub(crate) struct Place<B: Backend> {
    pub device: B::Device,
    pub name: String,
}

impl<B: Backend> Place<B> {
    /// Numbers in single precision from the host.
    pub fn upload(&self, values: &[f32], dims: impl Into<Shape>) -> Tensor<B> {
        let data = TensorData::new(values.to_vec(), dims.into());
        Tensor(B::float_from_data(data, &self.device))
    }

    /// Zeros.
    pub fn zeros(&self, dims: impl Into<Shape>) -> Tensor<B> {
        Tensor(B::float_zeros(dims.into(), &self.device, FloatDType::F32))
    }

    /// Words of 32 bits from the host.
    pub fn upload_words(&self, words: &[u32], dims: impl Into<Shape>) -> IntTensor<B> {
        let data = TensorData::new(words.to_vec(), dims.into());
        B::int_from_data(data, &self.device)
    }

    /// All numbers of a tensor, in single precision.
    pub fn download(&self, tensor: Tensor<B>) -> Result<Vec<f32>, DeviceError> {
        let tensor: FloatTensor<B> = tensor.cast(FloatDType::F32).0;
        let data = read_sync(B::float_into_data(tensor));
        let data = data.map_err(|error| self.failure(&error.to_string()))?;
        debug_assert_eq!(data.dtype(), DType::F32);
        let values = data.as_slice().map(<[f32]>::to_vec);
        values.map_err(|error| self.failure(&format!("{error:?}")))
    }

    /// All numbers of several tensors, in one transfer.
    pub fn download_all(&self, tensors: Vec<Tensor<B>>) -> Result<Vec<Vec<f32>>, DeviceError> {
        use burn_backend::TensorMetadata;
        if tensors.is_empty() {
            return Ok(vec![]);
        }
        let lengths: Vec<usize> = (tensors.iter())
            .map(|tensor| tensor.0.shape().num_elements())
            .collect();
        let flat = tensors.into_iter().zip(&lengths);
        let flat = flat.map(|(tensor, &length)| tensor.reshape([length]));
        let all = self.download(Tensor::concat(flat.collect(), 0))?;
        let mut rest = all.as_slice();
        let parts = lengths.into_iter().map(|length| {
            let (part, after) = rest.split_at(length);
            rest = after;
            part.to_vec()
        });
        Ok(parts.collect())
    }

    /// Does what may fail. The backends panic where a driver refuses something; such
    /// a panic ends here, as an error.
    pub fn guard<T>(
        &self,
        work: impl FnOnce() -> Result<T, DeviceError>,
    ) -> Result<T, DeviceError> {
        catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            Err(self.failure(text.unwrap_or("it gave no reason")))
        })
    }

    /// What a driver said, as an error.
    pub fn failure(&self, said: &str) -> DeviceError {
        let device = self.name.clone();
        let reason: Vec<&str> = said.split_whitespace().collect();
        let reason = reason.join(" ");
        let lower = reason.to_lowercase();
        let memory = [
            "out of memory",
            "outofmemory",
            "not enough memory",
            "buffertoobig",
        ];
        match memory.iter().any(|sign| lower.contains(sign)) {
            true => DeviceError::OutOfMemory { device, reason },
            false => DeviceError::Failed { device, reason },
        }
    }
}
