//! Models of an experiment that somebody else made.

use std::path::{Path, PathBuf};

use data::Split;
use exchange::FileKind;
use settings::SettingError;

use super::{Experiment, ImportStage, Laboratory, Stage, StageStart};
use crate::error::Error;
use crate::observer::Observer;
use crate::registry::Registry;
use crate::source::{ImageSource as _, ModelSource, Weights};

impl Experiment {
    /// Takes the weights of a model instead of training it. Weights alone are those of the
    /// network that would be trained.
    ///
    /// # Errors
    /// A model that there is not, or that is made from another one; a file that cannot be
    /// read.
    pub fn give(&mut self, name: &str, weights: &Path) -> Result<(), Error> {
        let input = self.input.map(|input| input.to_string());
        for stage in &mut self.stages {
            let Stage::Fit(fit) = stage else { continue };
            if fit.name != name {
                continue;
            }
            let StageStart::Architecture(arch, normalise) = &fit.start else {
                break;
            };
            let file = ModelSource::new(weights).file();
            let kind = FileKind::of(&file).map_err(|error| Error::from(error).at(&file))?;
            let weights_only = kind.is_none_or(|kind| kind == FileKind::Weights);
            let described = match weights_only {
                true => Weights {
                    arch: Some(arch.clone()),
                    normalise: normalise.clone(),
                    input,
                    ..Weights::default()
                },
                false => Weights::default(),
            };
            *stage = Stage::Import(ImportStage {
                name: fit.name.clone(),
                method: fit.method.clone(),
                source: ModelSource::with(weights, described),
            });
            return Ok(());
        }
        let expected = "a model that is trained from random weights";
        Err(SettingError::value("model", name, expected).into())
    }

    /// Leaves out the models that are only compared with if somebody brings them, and what
    /// is measured of them.
    pub fn without_optional(&mut self) {
        let optional = |stage: &Stage| match stage {
            Stage::Fit(fit) if fit.optional => Some(fit.name.clone()),
            _ => None,
        };
        let left_out: Vec<String> = self.stages.iter().filter_map(optional).collect();
        self.stages.retain(|stage| match stage {
            Stage::Fit(fit) => !left_out.contains(&fit.name),
            Stage::Import(_) => true,
            Stage::Measure(measured) => !left_out.contains(&measured.model),
        });
    }

    /// Trains other networks than the experiment says, with these inputs: a small stand-in
    /// of it.
    pub fn with_architecture(&mut self, name: &str) {
        for stage in &mut self.stages {
            if let Stage::Fit(fit) = stage
                && let StageStart::Architecture(arch, _) = &mut fit.start
            {
                *arch = name.into();
            }
        }
    }

    /// Writes a given model into the experiment's folder, as one of its method, with the
    /// data's class names where it has none.
    pub(super) fn import(
        &self,
        stage: &ImportStage,
        laboratory: &Laboratory<'_>,
        observer: &mut dyn Observer,
    ) -> Result<PathBuf, Error> {
        let dataset = self.data.open(Split::Test, self.input)?;
        let mut loaded = stage.source.load(Some(&dataset))?;
        for note in &loaded.report.notes {
            observer.note(&format!("{}: {note}", stage.source.path.display()));
        }
        let info = &mut loaded.model.info;
        info.method = Some(stage.method.clone());
        if is_noisy(laboratory.registry, &stage.method) {
            info.sigma = info.sigma.or(Some(self.sigma));
        }
        let outputs = loaded.model.graph.classes();
        if loaded.model.info.classes.is_empty() && dataset.classes().len() == outputs {
            loaded.model.info.classes = dataset.classes().to_vec();
        }
        let path = laboratory.model(&stage.name);
        let bytes = loaded.model.to_bytes();
        // Measurements of another model would not fit this one.
        if let Ok(there) = std::fs::read(&path)
            && there != bytes
        {
            return Err(Error::refused(
                format!(
                    "{} is another model than {}",
                    path.display(),
                    stage.source.path.display()
                ),
                "give the same weights as before, or another folder",
            ));
        }
        record::atomic::write(&path, &bytes)?;
        Ok(path)
    }
}

fn is_noisy(registry: &Registry, method: &str) -> bool {
    registry.is_stochastic(method)
}
