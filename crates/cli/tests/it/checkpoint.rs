//! Weights as `torch.save` writes them: a ZIP archive of a pickled dictionary and the bytes
//! of its tensors.

use std::io::Write as _;
use std::path::Path;

use heatsmooth::Model;
use heatsmooth::network::file::named_parameters;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

/// Whose files to follow.
#[derive(Clone, Copy)]
pub enum Layout {
    /// torchvision: the state dictionary alone.
    Torchvision,
    /// Cohen et al. and Salman et al.: a dictionary with the state of training; their
    /// network is a normalisation layer without weights, then one in `DataParallel`.
    Cohen,
}

/// The opcodes of a pickle, protocol 2.
#[derive(Default)]
struct Pickle(Vec<u8>);

impl Pickle {
    fn op(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    fn text(&mut self, text: &str) -> &mut Self {
        self.op(b"X").op(&(text.len() as u32).to_le_bytes());
        self.op(text.as_bytes())
    }

    fn number(&mut self, number: usize) -> &mut Self {
        self.op(b"J").op(&(number as i32).to_le_bytes())
    }

    fn numbers(&mut self, numbers: &[usize]) -> &mut Self {
        self.op(b"(");
        for &number in numbers {
            self.number(number);
        }
        self.op(b"t")
    }

    fn ordered(&mut self) -> &mut Self {
        self.op(b"ccollections\nOrderedDict\n)R")
    }

    /// A tensor whose values are the whole of a file.
    fn tensor(&mut self, file: usize, shape: &[usize]) -> &mut Self {
        let mut strides = vec![1; shape.len()];
        for axis in (1..shape.len()).rev() {
            strides[axis - 1] = strides[axis] * shape[axis];
        }
        self.op(b"ctorch._utils\n_rebuild_tensor_v2\n((");
        self.text("storage").op(b"ctorch\nFloatStorage\n");
        self.text(&file.to_string()).text("cpu");
        self.number(shape.iter().product()).op(b"tQ");
        self.number(0).numbers(shape).numbers(&strides);
        self.op(b"\x89").ordered().op(b"tR")
    }
}

/// Writes the weights of a model.
pub fn save(model: &Model, path: &Path, layout: Layout) {
    let file = std::fs::File::create(path).unwrap();
    let mut zip = ZipWriter::new(file);
    let mut put = |name: String, bytes: &[u8]| {
        let stored = zip::CompressionMethod::Stored;
        let options = SimpleFileOptions::default().compression_method(stored);
        zip.start_file(format!("archive/{name}"), options).unwrap();
        zip.write_all(bytes).unwrap();
    };
    let mut pickle = Pickle::default();
    pickle.op(b"\x80\x02");
    if let Layout::Cohen = layout {
        pickle.op(b"}(").text("epoch").number(90);
        pickle.text("arch").text("resnet50").text("state_dict");
    }
    pickle.ordered().op(b"(");
    let parameters = named_parameters(&model.graph, &model.parameters);
    for (number, (name, shape, values)) in parameters.into_iter().enumerate() {
        let prefix = match layout {
            Layout::Torchvision => "",
            Layout::Cohen => "1.module.",
        };
        pickle.text(&format!("{prefix}{name}"));
        pickle.tensor(number, &shape);
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        put(format!("data/{number}"), &bytes);
    }
    pickle.op(b"u");
    if let Layout::Cohen = layout {
        pickle.text("optimizer").op(b"}(");
        pickle.text("state").op(b"}").text("param_groups").op(b"]");
        pickle.op(b"uu");
    }
    pickle.op(b".");
    put("data.pkl".into(), &pickle.0);
    put("version".into(), b"3\n");
    zip.finish().unwrap();
}
