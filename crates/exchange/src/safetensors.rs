//! Other people's safetensors files.

use half::{bf16, f16};
use network::FileError;
use safetensors::tensor::{Dtype, SafeTensors};

use super::{StateDict, Tensor};

/// Whether a file looks like safetensors: the length of its header, then JSON.
pub(super) fn recognise(bytes: &[u8]) -> bool {
    let length = bytes.first_chunk().map(|b| u64::from_le_bytes(*b));
    bytes.get(8) == Some(&b'{') && length.is_some_and(|n| n <= bytes.len() as u64 - 8)
}

/// Reads the floating-point tensors of any safetensors file; others are
/// counters and left out.
pub fn read(bytes: &[u8]) -> Result<StateDict, FileError> {
    let file = SafeTensors::deserialize(bytes).map_err(|e| FileError::Layout(e.to_string()))?;
    let mut state_dict = StateDict::new();
    for (name, view) in file.iter() {
        let data = view.data();
        let values: Vec<f32> = match view.dtype() {
            Dtype::F32 => words(data).map(f32::from_le_bytes).collect(),
            Dtype::F64 => words(data).map(|b| f64::from_le_bytes(b) as f32).collect(),
            Dtype::F16 => words(data)
                .map(|b| f16::from_le_bytes(b).to_f32())
                .collect(),
            Dtype::BF16 => words(data)
                .map(|b| bf16::from_le_bytes(b).to_f32())
                .collect(),
            _ => continue,
        };
        let shape = view.shape().to_vec();
        state_dict.insert(name.to_string(), Tensor { shape, values });
    }
    Ok(state_dict)
}

fn words<const N: usize>(data: &[u8]) -> impl Iterator<Item = [u8; N]> + '_ {
    data.as_chunks::<N>().0.iter().copied()
}
