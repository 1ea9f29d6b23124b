//! What can go wrong, with what to do about it.

use std::path::PathBuf;

use attack::AttackError;
use certify::CertifyError;
use data::DataError;
use exchange::ImportError;
use network::architecture::ArchitectureError;
use network::{DeviceError, FileError};
use record::RecordError;
use report::ReportError;
use settings::SettingError;
use train::{EvaluateError, TrainError};

macro_rules! errors {
    ($($(#[$about:meta])* $name:ident($type:ty),)*) => {
        /// Any error of the library. [`Error::hint`] says what to do next.
        #[derive(Debug, thiserror::Error)]
        pub enum Error {
            $($(#[$about])* #[error(transparent)] $name(#[from] $type),)*
            /// A built-in architecture that there is not, or that does not fit.
            #[error(transparent)]
            Architecture(#[from] ArchitectureError),
            /// Something only the library knows.
            #[error("{message}")]
            Refused {
                /// What is wrong.
                message: String,
                /// What to do about it.
                hint: String,
            },
            /// A file or folder that is at the root of another error.
            #[error("{}: {source}", .path.display())]
            At {
                /// The file or folder.
                path: PathBuf,
                /// What is wrong with it.
                source: Box<Error>,
            },
            /// The observer asked to stop; everything so far is on disk.
            #[error("stopped on request")]
            Stopped,
        }

        impl Error {
            /// What to do about it.
            pub fn hint(&self) -> Option<String> {
                match self {
                    $(Self::$name(error) => error.hint().map(Into::into),)*
                    Self::Architecture(_) => None,
                    Self::Refused { hint, .. } => Some(hint.clone()),
                    Self::At { source, .. } => source.hint(),
                    Self::Stopped => Some("run the same again to go on".into()),
                }
            }
        }
    };
}

errors! {
    /// An attack did not run.
    Attack(AttackError),
    /// A certificate was not made.
    Certify(CertifyError),
    /// Images cannot be read.
    Data(DataError),
    /// The device fails.
    Device(DeviceError),
    /// Accuracy cannot be measured.
    Evaluate(EvaluateError),
    /// A model file cannot be read.
    File(FileError),
    /// Another program's model cannot be read.
    Import(ImportError),
    /// A record cannot be read or written.
    Record(RecordError),
    /// A report cannot be built.
    Report(ReportError),
    /// A parameter makes no sense.
    Setting(SettingError),
    /// A training run stopped.
    Train(TrainError),
}

impl Error {
    /// An error with advice.
    pub fn refused(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Refused {
            message: message.into(),
            hint: hint.into(),
        }
    }

    /// Outputs that no class can be read from.
    pub(crate) fn not_finite(images: u64, of: u64) -> Self {
        let images = match of {
            1 => String::new(),
            _ => format!(" for {images} of {of} images"),
        };
        Self::refused(
            format!("the network's output is not finite{images}"),
            "the network overflows; was its training stable, and is its input normalised as it \
             was then?",
        )
    }

    /// The same error, said to be about a file or folder, unless it names it itself.
    pub fn at(self, path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        let name = path.display().to_string();
        if !name.is_empty() && self.to_string().contains(&name) {
            return self;
        }
        let source = Box::new(self);
        Self::At { path, source }
    }

    /// The setting that is complained about, if it is one: a program with flags
    /// names its flag.
    pub fn setting(&self) -> Option<&SettingError> {
        match self {
            Self::Setting(error)
            | Self::Attack(AttackError::Setting(error))
            | Self::Certify(CertifyError::Setting(error))
            | Self::Train(TrainError::Setting(error))
            | Self::Train(TrainError::Attack(AttackError::Setting(error))) => Some(error),
            Self::At { source, .. } => source.setting(),
            _ => None,
        }
    }
}
