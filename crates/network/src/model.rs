//! A graph with its weights and where they come from.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::calibration::Calibration;
use crate::graph::{Graph, NodeId};
use crate::init::initialise;
use crate::noise::Distribution;
use crate::op::Op;
use crate::parameters::Parameters;

/// What a model's outputs are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskKind {
    /// Logits, one a class.
    #[default]
    Classification,
    /// Real values.
    Regression,
}

impl TaskKind {
    /// Files of classifiers do not say so.
    fn is_usual(&self) -> bool {
        *self == Self::Classification
    }
}

/// Where a model comes from: what its file says about it besides the weights.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelInfo {
    /// Name of the built-in architecture, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
    /// What the outputs are.
    #[serde(default, skip_serializing_if = "TaskKind::is_usual")]
    pub task: TaskKind,
    /// Names of the classes, or of a regression's values, in the order of the
    /// outputs; may be empty.
    #[serde(default)]
    pub classes: Vec<String>,
    /// How the weights were made: `baseline`, `gaussian`, `smoothadv`,
    /// `adversarial`, `heat`, `average`, those with other noise (`uniform`, ...), or
    /// `imported`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Name for people where the method alone would be ambiguous.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The noise level that the model was trained for, in units of pixels
    /// scaled to [0, 1].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sigma: Option<f64>,
    /// The noise that the model was trained for; Gaussian unless its file says
    /// otherwise.
    #[serde(default, skip_serializing_if = "is_gaussian")]
    pub noise: Distribution,
    /// Hyper-parameters of the method.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub hyper_parameters: Map<String, Value>,
    /// Name of the training data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
    /// SHA-256 of the training data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_sha256: Option<String>,
    /// SHA-256 of the file of the model that this one was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_sha256: Option<String>,
    /// Version of the program that wrote the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// What one pass may promise, if that was measured. It is no part of what the
    /// model is: see [`Model::uncalibrated_sha256`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Calibration>,
}

fn is_gaussian(noise: &Distribution) -> bool {
    *noise == Distribution::Gaussian
}

/// A network: graph, parameters and provenance.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// What is computed.
    pub graph: Graph,
    /// With which weights.
    pub parameters: Parameters,
    /// Where they come from.
    pub info: ModelInfo,
}

impl Model {
    /// Fresh random weights for a graph, a pure function of the seed.
    pub fn initialised(graph: Graph, seed: u64, info: ModelInfo) -> Self {
        let parameters = initialise(&graph, seed);
        Self {
            graph,
            parameters,
            info,
        }
    }

    /// The same function with a scale that can be learned where the last node is
    /// a batch norm without one: its outputs have unit variance, and so could not
    /// become those of an average.
    #[must_use]
    pub fn with_output_scale(self) -> Self {
        let last = self.graph.output();
        let mut nodes = self.graph.nodes().to_vec();
        let Op::BatchNorm { scale, .. } = &mut nodes[last].op else {
            return self;
        };
        if *scale {
            return self;
        }
        *scale = true;
        match Graph::new(nodes) {
            Ok(graph) => self.with_graph(graph, 1.0),
            Err(_) => self,
        }
    }

    /// The same function with every ReLU as an average over noise of width 0, to
    /// be widened.
    #[must_use]
    pub fn with_averaged_relus(self) -> Self {
        let mut nodes = self.graph.nodes().to_vec();
        let relus = nodes.iter_mut().filter(|node| node.op == Op::RELU);
        relus.for_each(|node| node.op = Op::AveragedRelu);
        let graph = Graph::new(nodes).expect("a ReLU keeps shapes, averaged or not");
        self.with_graph(graph, 0.0)
    }

    /// The part that computes one node, which takes the place of the logits.
    #[must_use]
    pub fn up_to(&self, node: NodeId) -> Self {
        let nodes = self.graph.nodes()[..=node].to_vec();
        let graph = Graph::new(nodes).expect("the beginning of a graph is a graph");
        self.clone().with_graph(graph, 0.0)
    }

    /// Another graph with the values of the parameters that both have; those that
    /// are new are `fresh` everywhere.
    fn with_graph(self, graph: Graph, fresh: f32) -> Self {
        let specs = self.graph.parameters().iter();
        let own: HashMap<_, _> = specs
            .map(|spec| &spec.name)
            .zip(self.parameters.iter())
            .collect();
        let values = graph
            .parameters()
            .iter()
            .map(|spec| match own.get(&spec.name) {
                Some(values) => values.to_vec(),
                None => vec![fresh; spec.len()],
            });
        Self {
            parameters: Parameters::new(&graph, values.collect()),
            graph,
            info: self.info,
        }
    }

    /// Name of a class or value: from the file, or its number.
    pub fn class_name(&self, class: usize) -> String {
        let name = self.info.classes.get(class).cloned();
        name.unwrap_or_else(|| class.to_string())
    }
}
