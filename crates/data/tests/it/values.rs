//! Real values: CSV files of paths, arrays of NumPy's, and images without labels.

use std::io::Write as _;
use std::path::Path;

use heatsmooth_data::{
    Augment, DataError, Dataset, Loader, LoaderOptions, OpenOptions, Shape, Split, Targets, View,
    encode_png, open,
};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

fn picture(path: &Path, shade: f32) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let image = encode_png(Shape::new(2, 2, 1), &[shade; 4]).unwrap();
    std::fs::write(path, image).unwrap();
}

fn open_at(path: &Path, split: Split) -> Result<Dataset, DataError> {
    let options = OpenOptions {
        view: View::for_shape(Shape::new(2, 2, 1)),
        ..OpenOptions::default()
    };
    open(path.to_str().unwrap(), split, &options)
}

/// An array as `numpy.save` writes it.
fn npy(kind: &str, shape: &str, content: &[u8]) -> Vec<u8> {
    let mut header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}");
    while (10 + header.len() + 1) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.bytes());
    bytes.extend(content);
    bytes
}

fn npz(path: &Path, arrays: &[(&str, Vec<u8>)], method: CompressionMethod) {
    let mut archive = ZipWriter::new(std::fs::File::create(path).unwrap());
    for (name, bytes) in arrays {
        let options = SimpleFileOptions::default().compression_method(method);
        archive.start_file(format!("{name}.npy"), options).unwrap();
        archive.write_all(bytes).unwrap();
    }
    archive.finish().unwrap();
}

fn floats(values: &[f32]) -> Vec<u8> {
    values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect()
}

#[test]
fn a_csv_file_lists_images_and_their_values() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    picture(&root.join("a/1.png"), 0.2);
    picture(&root.join("2.png"), 0.8);
    let file = root.join("values.csv");
    std::fs::write(&file, "path,angle,speed\na/1.png,-0.5,30\n2.png,0.25,50\n").unwrap();
    let data = open_at(&file, Split::Test).unwrap();
    assert_eq!(data.value_names(), ["angle", "speed"]);
    assert_eq!(data.values(), [-0.5, 30.0, 0.25, 50.0]);
    assert!(data.classes().is_empty() && data.labels().is_empty());
    assert!(data.is_whole() && data.default_augment() == Augment::None);
    let images = data.images([1, 0]).unwrap();
    assert_eq!(images.values, [0.25, 50.0, -0.5, 30.0]);
    assert_eq!((images.image(0)[0], images.labels[0]), (0.8, 0));
    let mut loader = Loader::new(&data, LoaderOptions::evaluation(2)).unwrap();
    assert_eq!(loader.next().unwrap().unwrap().values, data.values());

    // In the order of a model's outputs.
    let names: Vec<String> = ["speed", "angle"].map(String::from).into();
    let turned = data.with_values(&names).unwrap();
    assert_eq!(turned.values(), [30.0, -0.5, 50.0, 0.25]);
    let error = data
        .with_values(&["height".into(), "angle".into()])
        .unwrap_err();
    assert!(matches!(error, DataError::OtherValues { .. }) && error.hint().is_some());

    // Values count for the hash.
    let hash = data.hash().to_owned();
    std::fs::write(&file, "path,angle,speed\na/1.png,-0.5,30\n2.png,0.25,51\n").unwrap();
    assert_ne!(open_at(&file, Split::Test).unwrap().hash(), hash);

    std::fs::write(&file, "path,angle\na/1.png,1\nnone.png,2\n").unwrap();
    let error = open_at(&file, Split::Test).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("values.csv:3:") && text.contains("none.png"),
        "{text}"
    );

    // Parts.
    std::fs::write(root.join("train.csv"), "path,y\na/1.png,1\n").unwrap();
    let missing = open_at(root, Split::Test).unwrap_err();
    assert!(matches!(missing, DataError::Missing { .. }), "{missing}");
    std::fs::write(root.join("test.csv"), "path,y\n2.png,2\n").unwrap();
    let [train, test] = [Split::Train, Split::Test].map(|split| open_at(root, split).unwrap());
    assert_eq!((train.values(), test.values()), (&[1.0][..], &[2.0][..]));
    assert!(!train.is_whole());
}

#[test]
fn arrays_are_images_with_values_labels_or_neither() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("data.npz");
    let images = || {
        npy(
            "|u1",
            "(3, 2, 2)",
            &[0, 51, 102, 255, 1, 2, 3, 4, 5, 6, 7, 8],
        )
    };
    for method in [CompressionMethod::Stored, CompressionMethod::Deflated] {
        let values = npy("<f4", "(3, 1)", &floats(&[0.5, -1.0, 2.0]));
        npz(&file, &[("images", images()), ("values", values)], method);
        let data = open_at(&file, Split::Train).unwrap();
        assert_eq!((data.len(), data.shape()), (3, Shape::new(2, 2, 1)));
        assert_eq!(data.values(), [0.5, -1.0, 2.0]);
        assert_eq!(data.value_names(), ["0"]);
        assert_eq!(data.images([0]).unwrap().pixels, [0.0, 0.2, 0.4, 1.0]);
        assert!(data.is_whole());
    }
    let stored = CompressionMethod::Stored;
    let big = npy(
        ">f8",
        "(3,)",
        &[1.5f64, 2.5, 3.5].map(f64::to_be_bytes).concat(),
    );
    npz(&file, &[("images", images()), ("values", big)], stored);
    assert_eq!(
        open_at(&file, Split::Test).unwrap().values(),
        [1.5, 2.5, 3.5]
    );

    let labels = npy("<i8", "(3,)", &[0i64, 4, 1].map(i64::to_le_bytes).concat());
    npz(&file, &[("images", images()), ("labels", labels)], stored);
    let data = open_at(&file, Split::Test).unwrap();
    assert_eq!((data.labels(), data.classes().len()), (&[0, 4, 1][..], 5));

    npz(&file, &[("images", images())], stored);
    let data = open_at(&file, Split::Test).unwrap();
    assert_eq!(*data.targets(), Targets::Unknown);

    // Parts in one file, as MedMNIST has them.
    let values = |y: f32| npy("<f4", "(3,)", &floats(&[y; 3]));
    let both = [
        ("train_images", images()),
        ("train_values", values(1.0)),
        ("val_images", images()),
        ("val_values", values(2.0)),
    ];
    npz(&file, &both, stored);
    assert_eq!(open_at(&file, Split::Train).unwrap().values()[0], 1.0);
    let test = open_at(&file, Split::Test).unwrap();
    assert_eq!((test.values()[0], test.is_whole()), (2.0, false));
}

#[test]
fn arrays_that_make_no_sense_are_refused() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("data.npz");
    let images = || npy("|u1", "(2, 1, 1)", &[0, 255]);
    let f4 = |values: &[f32], shape: &str| npy("<f4", shape, &floats(values));
    let whole = |values: &[i64]| {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        npy("<i8", &format!("({},)", values.len()), &bytes)
    };
    type Members = Vec<(&'static str, Vec<u8>)>;
    let cases: Vec<(Members, &str)> = vec![
        (vec![("x", images())], "it has no images among x"),
        (
            vec![
                ("images", images()),
                ("values", f4(&[1.0, f32::NAN], "(2,)")),
            ],
            "a value of image 1 is NaN",
        ),
        (
            vec![("images", images()), ("values", f4(&[1.0], "(1,)"))],
            "values have the shape [1]",
        ),
        (
            vec![("images", images()), ("labels", whole(&[0, -1]))],
            "label -1 is no class",
        ),
        (
            vec![("images", images()), ("labels", whole(&[0, i64::MAX]))],
            "is no class",
        ),
        (
            vec![("images", images()), ("labels", f4(&[0.0, 1.0], "(2,)"))],
            "labels are real numbers",
        ),
        (
            vec![
                ("images", images()),
                ("labels", whole(&[0, 1])),
                ("values", f4(&[0.0, 1.0], "(2,)")),
            ],
            "both values and labels",
        ),
        (
            vec![("images", f4(&[0.0, 1.0], "(2, 1, 1)"))],
            "not of kind uint8",
        ),
        (
            vec![("images", npy("|u1", "(2,)", &[0, 1]))],
            "images have the shape [2]",
        ),
        (
            vec![("images", npy("|u1", "(0, 2, 2)", &[]))],
            "there are no images",
        ),
        (
            vec![("images", npy("|u1", "(9999999, 9999999, 9999999)", &[1]))],
            "more than it holds",
        ),
        (
            vec![("images", npy("|u1", "(2, 2, 2)", &[1]))],
            "expected 8 bytes of numbers",
        ),
        (
            vec![("images", npy("<c8", "(1, 1, 1)", &[1; 8]))],
            "of kind \"<c8\"",
        ),
        (
            vec![("images", b"not an array".to_vec())],
            "not in NumPy's format",
        ),
    ];
    for (arrays, expected) in cases {
        npz(&file, &arrays, CompressionMethod::Stored);
        let error = open_at(&file, Split::Test).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        assert!(error.hint().unwrap().contains("uint8"));
    }
    std::fs::write(&file, "PK not an archive").unwrap();
    assert!(matches!(
        open_at(&file, Split::Test),
        Err(DataError::Npz { .. })
    ));
}

#[test]
fn images_in_no_class_folder_have_no_labels() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    picture(&root.join("b.png"), 0.2);
    picture(&root.join("a.png"), 0.8);
    let data = open_at(root, Split::Test).unwrap();
    assert_eq!(*data.targets(), Targets::Unknown);
    assert!(data.is_whole());
    let images = data.images([0, 1]).unwrap();
    assert_eq!((images.labels, images.values), (vec![0, 0], vec![]));
    assert_eq!(images.pixels[0], 0.8);

    let parts = tempfile::tempdir().unwrap();
    let parts = parts.path();
    picture(&parts.join("train/1.png"), 0.2);
    picture(&parts.join("train/2.png"), 0.4);
    picture(&parts.join("test/1.png"), 0.6);
    let [train, test] = [Split::Train, Split::Test].map(|split| open_at(parts, split).unwrap());
    assert_eq!((train.len(), test.len()), (2, 1));
    assert_eq!(*train.targets(), Targets::Unknown);
    assert!(!train.is_whole());
    let empty = tempfile::tempdir().unwrap();
    let error = open_at(empty.path(), Split::Test).unwrap_err();
    assert!(matches!(error, DataError::EmptyFolder { .. }));
}
