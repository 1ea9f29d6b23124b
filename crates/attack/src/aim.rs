//! Which class each image of a targeted attack is driven to.

use network::{Noise, Purpose};

/// A choice of targets: a pure function of seed, image and label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aim {
    /// One class for all images; those of this class are left out.
    Class(u32),
    /// The class after the label, the first one after the last.
    Next,
    /// Any class but the label, each equally likely.
    Random {
        /// Of the choice.
        seed: u64,
    },
}

impl Aim {
    /// The target of one image in a data set of `classes` classes, of which
    /// `label` is one.
    pub fn target(&self, index: u32, label: u32, classes: usize) -> u32 {
        match *self {
            Self::Class(class) => class,
            Self::Next => (label + 1) % classes as u32,
            Self::Random { seed } => {
                // The largest of several equal normals is any of them. Sample 0 is
                // free: random directions have the numbers of their steps, from 1.
                let noise = Noise::gaussian(seed, Purpose::Attack, 1.0);
                let draws = noise.draw(index, 0, classes);
                let others = (0..classes as u32).filter(|&class| class != label);
                let value = |class: u32| draws[class as usize];
                let largest = others.max_by(|&a, &b| value(a).total_cmp(&value(b)));
                largest.unwrap_or(label)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_wraps_around() {
        assert_eq!([0, 8, 9].map(|y| Aim::Next.target(5, y, 10)), [1, 9, 0]);
        assert_eq!(Aim::Class(3).target(5, 3, 10), 3);
    }

    /// 9 classes with 9000 draws: a count of 1000 has a standard deviation of 30.
    #[test]
    fn random_targets_are_even_and_never_the_label() {
        let aim = Aim::Random { seed: 1 };
        let mut counts = [0; 10];
        for index in 0..9000 {
            counts[aim.target(index, 4, 10) as usize] += 1;
        }
        assert_eq!(counts[4], 0);
        let others = counts.iter().enumerate().filter(|(class, _)| *class != 4);
        let mut others = others;
        assert!(others.all(|(_, n)| (820..1180).contains(n)), "{counts:?}");
        assert_eq!(aim.target(17, 4, 10), aim.target(17, 4, 10));
        let other = Aim::Random { seed: 2 };
        assert!((0..50).any(|i| aim.target(i, 4, 10) != other.target(i, 4, 10)));
    }
}
