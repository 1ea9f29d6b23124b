//! Targets by the names of somebody else's outputs: those of a network.

use std::sync::Arc;

use crate::{DataError, Dataset, Targets};

/// Targets that replace a data set's own.
#[derive(Debug)]
pub(crate) struct Relabelled {
    pub targets: Targets,
    pub note: String,
}

/// So many classes are told one by one.
const TOLD: usize = 6;

impl Dataset {
    /// The same images, labelled by the positions of their classes' names in
    /// `names`. Classes that are plain numbers, as those of digits, are positions
    /// already.
    ///
    /// # Errors
    /// A class with images whose name is not among `names`.
    pub fn with_classes(&self, names: &[String]) -> Result<Self, DataError> {
        let own = self.classes();
        if own == names || (own.len() == names.len() && are_numbers(own)) {
            return Ok(self.clone());
        }
        let position = |class: &String| names.iter().position(|name| name == class);
        let words = self.class_words();
        let positions = own.iter().enumerate().map(|(class, name)| {
            // ImageNet's classes go by synset or by words.
            position(name).or_else(|| position(words.get(class)?))
        });
        let positions: Vec<Option<usize>> = positions.collect();
        let mut labels = Vec::with_capacity(self.len());
        for &label in self.labels() {
            let Some(position) = positions[label as usize] else {
                return Err(self.other_classes(names, &positions));
            };
            labels.push(position as u32);
        }
        let pairs = own.iter().zip(&positions);
        let pairs =
            pairs.filter_map(|(name, position)| Some(format!("{name} is {}", (*position)?)));
        let note = format!("labels by the model's class names: {}", some(pairs));
        let names = names.to_vec();
        Ok(self.relabelled(Targets::Classes { names, labels }, note))
    }

    /// The same images with their values in the order of `names`, those of a
    /// network's outputs. Values that are called by their positions stay.
    ///
    /// # Errors
    /// Another number of values; a name without values.
    pub fn with_values(&self, names: &[String]) -> Result<Self, DataError> {
        let own = self.value_names();
        if own == names || (own.len() == names.len() && (are_numbers(own) || are_numbers(names))) {
            return Ok(self.clone());
        }
        let place = |name: &String| own.iter().position(|known| known == name);
        let places: Option<Vec<usize>> = names.iter().map(place).collect();
        let Some(places) = places.filter(|places| places.len() == own.len()) else {
            return Err(DataError::OtherValues {
                dataset: self.name().into(),
                known: own.join(", "),
                wanted: names.join(", "),
            });
        };
        let rows = self.values().chunks_exact(own.len());
        let values = rows.flat_map(|row| places.iter().map(|&place| row[place]));
        let targets = Targets::Values {
            names: names.to_vec(),
            values: values.collect(),
        };
        let note = format!("values in the order of the model's: {}", names.join(", "));
        Ok(self.relabelled(targets, note))
    }

    /// The same images, of which nothing is known: for a network whose outputs the
    /// targets are not.
    pub fn without_targets(&self) -> Self {
        let note = "the labels are not what the model predicts: they are left aside".into();
        self.relabelled(Targets::Unknown, note)
    }

    fn relabelled(&self, targets: Targets, note: String) -> Self {
        let mut dataset = self.clone();
        dataset.relabelled = Some(Arc::new(Relabelled { targets, note }));
        dataset
    }

    fn other_classes(&self, names: &[String], positions: &[Option<usize>]) -> DataError {
        let unknown = self.classes().iter().zip(positions);
        let unknown = unknown.filter_map(|(name, at)| at.is_none().then_some(name));
        DataError::OtherClasses {
            dataset: self.name().into(),
            unknown: some(unknown.map(|name| format!("{name:?}"))),
            known: some(names.iter().cloned()),
        }
    }
}

/// Whether classes are called by their positions: 0, 1, 2, ...
fn are_numbers(classes: &[String]) -> bool {
    let mut numbered = classes.iter().enumerate();
    numbered.all(|(position, name)| *name == position.to_string())
}

/// The first few of a list.
fn some(items: impl Iterator<Item = String>) -> String {
    let mut items: Vec<String> = items.collect();
    let more = items.len().saturating_sub(TOLD);
    if more > 0 {
        items.truncate(TOLD);
        items.push(format!("... ({more} more)"));
    }
    items.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Shape;

    fn pets(classes: &[&str], labels: &[u32]) -> Dataset {
        let pixels = vec![0; labels.len()];
        let shape = Shape::new(1, 1, 1);
        Dataset::from_bytes("pets", shape, classes, labels.to_vec(), pixels, 255).unwrap()
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.into()).collect()
    }

    #[test]
    fn issue_17_point_1_labels_follow_the_names_of_classes() {
        let model = names(&["airplane", "bird", "cat", "dog"]);
        let set = pets(&["cat", "dog"], &[0, 1, 0]);
        let matched = set.with_classes(&model).unwrap();
        assert_eq!(matched.labels(), [2, 3, 2]);
        assert_eq!(matched.classes(), model);
        assert_eq!(matched.first(2).labels(), [2, 3]);
        assert_eq!(matched.hash(), set.hash());
        assert!(
            matched
                .notes()
                .iter()
                .any(|note| note.contains("cat is 2, dog is 3"))
        );

        let error = pets(&["cat", "horse"], &[1])
            .with_classes(&model)
            .unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("\"horse\"") && text.contains("airplane, bird"),
            "{text}"
        );
        assert!(error.hint().is_some());
        // A class without images needs no place.
        assert!(pets(&["cat", "horse"], &[0]).with_classes(&model).is_ok());
    }

    #[test]
    fn classes_that_are_numbers_are_positions() {
        let set = pets(&["0", "1"], &[1, 0]);
        let same = set.with_classes(&names(&["T-shirt", "Trouser"])).unwrap();
        assert_eq!(
            (same.labels(), same.classes()),
            (set.labels(), set.classes())
        );
        assert!(set.with_classes(&names(&["a", "b", "c"])).is_err());
    }
}
