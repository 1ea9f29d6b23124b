//! Folders of images and files of weights for tests.

use std::path::Path;

use heatsmooth::Model;
use heatsmooth::data::{Shape, encode_png};
use heatsmooth::network::file::named_parameters;

/// Saves a picture: stripes whose width the class decides, at a brightness of its own.
pub fn picture(path: &Path, class: usize, number: usize, shape: Shape) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let pixels: Vec<f32> = (0..shape.len())
        .map(|at| {
            let column = at / shape.channels % shape.width;
            let stripe = column / (class + 1) % 2;
            (0.1 + 0.6 * stripe as f32 + 0.02 * number as f32).min(1.0)
        })
        .collect();
    std::fs::write(path, encode_png(shape, &pixels).unwrap()).unwrap();
}

/// A folder with parts train and test of three classes.
pub fn pets(root: &Path, each: usize) {
    for (class, name) in ["ant", "bee", "cat"].into_iter().enumerate() {
        for number in 0..each {
            for part in ["train", "test"] {
                let path = root.join(format!("{part}/{name}/{number}.png"));
                picture(&path, class, number, Shape::new(8, 8, 1));
            }
        }
    }
}

/// Writes a model's weights as another program's file: no graph, no normalisation.
pub fn weights_alone(model: &Model, path: &Path) {
    let mut header = serde_json::Map::new();
    let mut data: Vec<u8> = Vec::new();
    for (name, shape, values) in named_parameters(&model.graph, &model.parameters) {
        let start = data.len();
        data.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        let tensor = serde_json::json!({
            "dtype": "F32", "shape": shape, "data_offsets": [start, data.len()],
        });
        header.insert(name, tensor);
    }
    let header = serde_json::to_vec(&header).unwrap();
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header);
    bytes.extend(data);
    std::fs::write(path, bytes).unwrap();
}
