//! Several processes that train one network: what they do together.

use std::fmt;
use std::sync::Arc;

use crate::device_error::DeviceError;

/// Processes that work on the same thing, each of which has a rank. All of them call
/// the same functions in the same order; each call ends when all have made it.
///
/// Sums have the same bits on every rank, and the same ones whenever there are as many
/// ranks. Two and four ranks add up neighbours first, `(0 + 1) + (2 + 3)`, as one process
/// that does the work of all of them would: see [`tree_sum`].
pub trait Collective: Send + Sync + fmt::Debug {
    /// This process, from 0.
    fn rank(&self) -> usize;

    /// How many there are.
    fn size(&self) -> usize;

    /// Sums up the values of all ranks, element by element.
    ///
    /// # Errors
    /// Another rank is gone.
    fn sum(&self, values: &mut [f32]) -> Result<(), DeviceError>;

    /// The values of all ranks, one behind the other; all have as many.
    ///
    /// # Errors
    /// Another rank is gone.
    fn gather(&self, values: &[f64]) -> Result<Vec<f64>, DeviceError>;

    /// [`sum`](Self::sum) of a few values in double precision.
    ///
    /// # Errors
    /// Another rank is gone.
    fn sum_wide(&self, values: &mut [f64]) -> Result<(), DeviceError> {
        if self.size() > 1 && !values.is_empty() {
            let all = self.gather(values)?;
            tree_sum(all.chunks_exact(values.len()).map(<[f64]>::to_vec), values);
        }
        Ok(())
    }

    /// Gives every rank the bytes of rank 0.
    ///
    /// # Errors
    /// Another rank is gone.
    fn broadcast(&self, bytes: &mut Vec<u8>) -> Result<(), DeviceError>;

    /// Waits until all ranks are here.
    ///
    /// # Errors
    /// Another rank is gone.
    fn barrier(&self) -> Result<(), DeviceError>;
}

/// A single process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Alone;

impl Collective for Alone {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    fn sum(&self, _: &mut [f32]) -> Result<(), DeviceError> {
        Ok(())
    }

    fn gather(&self, values: &[f64]) -> Result<Vec<f64>, DeviceError> {
        Ok(values.to_vec())
    }

    fn broadcast(&self, _: &mut Vec<u8>) -> Result<(), DeviceError> {
        Ok(())
    }

    fn barrier(&self) -> Result<(), DeviceError> {
        Ok(())
    }
}

/// Writes the sum of arrays of one length: neighbours first, then neighbours of those sums,
/// and so on.
///
/// # Panics
/// If there is no array.
pub fn tree_sum<T>(arrays: impl Iterator<Item = Vec<T>>, sum: &mut [T])
where
    T: Copy + std::ops::AddAssign,
{
    let mut arrays: Vec<Vec<T>> = arrays.collect();
    let mut distance = 1;
    while distance < arrays.len() {
        for to in (0..arrays.len() - distance).step_by(2 * distance) {
            let (left, right) = arrays.split_at_mut(to + distance);
            let pairs = left[to].iter_mut().zip(&right[0]);
            pairs.for_each(|(sum, &more)| *sum += more);
        }
        distance *= 2;
    }
    sum.copy_from_slice(&arrays[0]);
}

/// What batch norms share with those of other ranks.
#[derive(Clone, Debug, Default)]
pub enum NormSharing {
    /// Nothing.
    #[default]
    Alone,
    /// The statistics of a train-mode pass are those of the images of all ranks.
    Statistics(Arc<dyn Collective>),
    /// Every rank normalises by its own images; only the running statistics are
    /// means over the ranks.
    Running(Arc<dyn Collective>),
}

/// Floats that are summed up at once: few enough to stay in a cache, enough not to
/// wait for the network's latency all the time.
const BUCKET: usize = 1 << 18;

/// Sums up many arrays over the ranks: large ones where they are, small ones together
/// in buckets.
///
/// # Errors
/// Another rank is gone.
pub fn sum_in_buckets<'a>(
    ranks: &dyn Collective,
    arrays: impl Iterator<Item = &'a mut [f32]>,
) -> Result<(), DeviceError> {
    let mut bucket: Vec<f32> = Vec::new();
    let mut waiting: Vec<&mut [f32]> = Vec::new();
    for array in arrays {
        if array.len() >= BUCKET {
            for part in array.chunks_mut(BUCKET) {
                ranks.sum(part)?;
            }
            continue;
        }
        if bucket.len() + array.len() > BUCKET {
            empty(ranks, &mut bucket, &mut waiting)?;
        }
        bucket.extend_from_slice(array);
        waiting.push(array);
    }
    empty(ranks, &mut bucket, &mut waiting)
}

/// Sums up a bucket and puts its values back to where they came from.
fn empty(
    ranks: &dyn Collective,
    bucket: &mut Vec<f32>,
    waiting: &mut Vec<&mut [f32]>,
) -> Result<(), DeviceError> {
    ranks.sum(bucket)?;
    let mut rest = bucket.as_slice();
    for array in waiting.drain(..) {
        let (own, behind) = rest.split_at(array.len());
        array.copy_from_slice(own);
        rest = behind;
    }
    bucket.clear();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// Two ranks that hold the same: everything is doubled.
    #[derive(Debug, Default)]
    struct Twins(Mutex<Vec<usize>>);

    impl Collective for Twins {
        fn rank(&self) -> usize {
            0
        }

        fn size(&self) -> usize {
            2
        }

        fn sum(&self, values: &mut [f32]) -> Result<(), DeviceError> {
            self.0.lock().unwrap().push(values.len());
            values.iter_mut().for_each(|v| *v *= 2.0);
            Ok(())
        }

        fn gather(&self, values: &[f64]) -> Result<Vec<f64>, DeviceError> {
            Ok([values, values].concat())
        }

        fn broadcast(&self, _: &mut Vec<u8>) -> Result<(), DeviceError> {
            Ok(())
        }

        fn barrier(&self) -> Result<(), DeviceError> {
            Ok(())
        }
    }

    #[test]
    fn neighbours_are_added_first() {
        // In this order, one at a time are lost beside the large number.
        let ones = [1.0_f32, 1.0, 16_777_216.0, 1.0, 1.0];
        let mut sum = [0.0];
        tree_sum(ones.iter().map(|&v| vec![v]), &mut sum);
        assert_eq!(sum, [(2.0 + (16_777_216.0 + 1.0)) + 1.0]);
        let mut wide = [3.0, 4.0];
        Twins::default().sum_wide(&mut wide).unwrap();
        assert_eq!(wide, [6.0, 8.0]);
    }

    #[test]
    fn every_value_is_summed_once_and_small_arrays_together() {
        let lengths = [3, 0, BUCKET + 5, 7, BUCKET - 8, 2, BUCKET];
        let mut arrays: Vec<Vec<f32>> = lengths
            .iter()
            .map(|&length| (0..length).map(|i| i as f32).collect())
            .collect();
        let twins = Twins::default();
        sum_in_buckets(&twins, arrays.iter_mut().map(Vec::as_mut_slice)).unwrap();
        for array in &arrays {
            assert!(array.iter().enumerate().all(|(i, &v)| v == 2.0 * i as f32));
        }
        let calls = twins.0.into_inner().unwrap();
        assert_eq!(calls, [BUCKET, 5, 10, BUCKET, BUCKET - 6]);
    }
}
