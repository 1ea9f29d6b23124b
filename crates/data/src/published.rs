//! Data sets that are kept as they are published: one archive, or one file a split, pinned
//! by a published checksum. CIFAR-100, SVHN, Tiny ImageNet and MedMNIST.

mod cifar100;
mod medmnist;
mod svhn;
mod tiny_imagenet;

use std::path::Path;

use crate::catalogue::OpenOptions;
use crate::{DataError, Dataset, Shape, Split, View, files, npz};

pub(crate) use self::medmnist::MED_MNIST;

/// A published file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct File {
    pub name: &'static str,
    pub url: &'static str,
    pub sum: Sum,
}

/// A published checksum.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sum {
    Sha256(&'static str),
    /// Finds damage, not malice; what is published for some.
    Md5(&'static str),
}

/// A data set of published files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Published {
    pub name: &'static str,
    pub about: &'static str,
    pub files: &'static [File],
    pub form: Form,
}

/// What is in the files.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form {
    Cifar100,
    Svhn,
    TinyImageNet,
    /// The names of the classes.
    MedMnist(&'static [&'static str]),
}

/// A. Krizhevsky, *Learning Multiple Layers of Features from Tiny Images*, 2009. The
/// checksum is that of TensorFlow Datasets.
pub(crate) const CIFAR100: Published = Published {
    name: "cifar100",
    about: "CIFAR-100, 32 x 32 RGB, 50000 train, 10000 test",
    files: &[File {
        name: "cifar-100-binary.tar.gz",
        url: "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
        sum: Sum::Sha256("58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec"),
    }],
    form: Form::Cifar100,
};

/// Y. Netzer, T. Wang, A. Coates, A. Bissacco, B. Wu and A. Ng, *Reading Digits in Natural
/// Images with Unsupervised Feature Learning*, 2011. The checksums are those of TensorFlow
/// Datasets.
pub(crate) const SVHN: Published = Published {
    name: "svhn",
    about: "SVHN, house numbers, 32 x 32 RGB, 73257 train, 26032 test",
    files: &[
        File {
            name: "train_32x32.mat",
            url: "http://ufldl.stanford.edu/housenumbers/train_32x32.mat",
            sum: Sum::Sha256("435e94d69a87fde4fd4d7f3dd208dfc32cb6ae8af2240d066de1df7508d083b8"),
        },
        File {
            name: "test_32x32.mat",
            url: "http://ufldl.stanford.edu/housenumbers/test_32x32.mat",
            sum: Sum::Sha256("cdce80dfb2a2c4c6160906d0bd7c68ec5a99d7ca4831afa54f09182025b6a75b"),
        },
    ],
    form: Form::Svhn,
};

/// Stanford's course CS231N, *Tiny ImageNet*, 2015. The checksum is the one that its many
/// loaders agree on; the publisher gives none.
pub(crate) const TINY_IMAGENET: Published = Published {
    name: "tiny-imagenet",
    about: "Tiny ImageNet, 200 classes, 64 x 64 RGB, 100000 train, 10000 test (its val)",
    files: &[File {
        name: "tiny-imagenet-200.zip",
        url: "http://cs231n.stanford.edu/tiny-imagenet-200.zip",
        sum: Sum::Md5("90528d7ca1a48142e341f4ef8d21d0de"),
    }],
    form: Form::TinyImageNet,
};

impl Sum {
    /// Refuses a file with another checksum.
    pub fn check(self, dataset: &str, path: &Path) -> Result<(), DataError> {
        drop(files::open(dataset, path)?);
        let (kind, expected, got) = match self {
            Self::Sha256(expected) => ("SHA-256", expected, files::sha256(path)?),
            Self::Md5(expected) => ("MD5", expected, files::md5(path)?),
        };
        files::check_sum(kind, path, expected, &got)
    }
}

impl Published {
    /// What images of files become when nobody asks for another size; none where all have
    /// their size already.
    pub fn view(&self) -> Option<View> {
        match self.form {
            Form::TinyImageNet => Some(View::for_shape(Shape::new(64, 64, 3))),
            _ => None,
        }
    }

    /// The file of a split.
    fn file(&self, split: Split) -> &File {
        match self.files {
            [train, test] => match split {
                Split::Train => train,
                Split::Test => test,
            },
            files => &files[0],
        }
    }

    /// Reads a split, refusing files that are not the published ones.
    pub fn open(
        &self,
        folder: &Path,
        split: Split,
        options: &OpenOptions,
    ) -> Result<Dataset, DataError> {
        let file = self.file(split);
        let path = folder.join(file.name);
        file.sum.check(self.name, &path)?;
        match self.form {
            Form::Cifar100 => cifar100::open(&path, split),
            Form::Svhn => svhn::open(&path, split),
            Form::TinyImageNet => tiny_imagenet::open(&path, split, options),
            Form::MedMnist(classes) => npz::open_named(self.name, &path, split, classes),
        }
    }
}

#[cfg(test)]
mod tests;
