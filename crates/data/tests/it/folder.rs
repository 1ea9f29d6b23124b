//! Folders of class folders of images, made here.

use std::path::Path;

use heatsmooth_data::{
    Augment, DataError, Dataset, OpenOptions, Shape, Split, View, encode_png, open, verify,
};

fn save(root: &Path, file: &str, (width, height): (usize, usize), shade: u8) {
    let path = root.join(file);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let pixels: Vec<f32> = (0..width * height)
        .flat_map(|at| [shade, (at % width) as u8, (at / width) as u8])
        .map(|byte| f32::from(byte) / 255.0)
        .collect();
    let image = encode_png(Shape::new(height, width, 3), &pixels).unwrap();
    std::fs::write(path, image).unwrap();
}

fn open_as(root: &Path, split: Split, shape: Shape) -> Result<Dataset, DataError> {
    let options = OpenOptions {
        root: None,
        view: View::for_shape(shape),
    };
    open(root.to_str().unwrap(), split, &options)
}

#[test]
fn classes_are_sorted_and_other_files_counted() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    save(root, "zebra/b.png", (12, 10), 30);
    save(root, "zebra/a.JPEG", (12, 10), 20);
    save(root, "zebra/deep/c.png", (12, 10), 40);
    save(root, "ant/x.jpg", (12, 10), 10);
    save(root, ".hidden/x.png", (12, 10), 0);
    std::fs::write(root.join("zebra/notes.txt"), "text").unwrap();
    std::fs::write(root.join("README"), "text").unwrap();
    let dataset = open_as(root, Split::Test, Shape::new(8, 8, 3)).unwrap();
    assert_eq!(dataset.classes(), ["ant", "zebra"]);
    assert_eq!(dataset.labels(), [0, 1, 1, 1]);
    assert_eq!(dataset.ignored_files(), 1);
    assert!(dataset.path(1).unwrap().ends_with("zebra/a.JPEG"));
    assert_eq!(dataset.path(4), None);
    let mut image = [0.0; 192];
    dataset.read(2, &mut image).unwrap();
    assert_eq!(image[0], 30.0 / 255.0);
    let train = open_as(root, Split::Train, Shape::new(8, 8, 3)).unwrap();
    assert_eq!(train.hash(), dataset.hash());
}

#[test]
fn the_hash_follows_names_sizes_and_labels() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    save(root, "a/1.png", (12, 10), 30);
    save(root, "b/1.png", (12, 10), 30);
    let hash = || {
        open_as(root, Split::Test, Shape::new(8, 8, 3))
            .unwrap()
            .hash()
            .to_owned()
    };
    let first = hash();
    assert_eq!(first, hash());
    save(root, "b/1.png", (40, 10), 30);
    let second = hash();
    assert_ne!(first, second);
    std::fs::rename(root.join("b/1.png"), root.join("b/2.png")).unwrap();
    assert_ne!(second, hash());
}

#[test]
fn split_folders_share_the_classes_of_train() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    save(root, "train/a/1.png", (8, 8), 1);
    save(root, "train/b/1.png", (8, 8), 2);
    save(root, "train/c/1.png", (8, 8), 3);
    save(root, "val/c/1.png", (8, 8), 4);
    let test = open_as(root, Split::Test, Shape::new(8, 8, 3)).unwrap();
    assert_eq!((test.labels(), test.classes().len()), (&[2][..], 3));
    let train = open_as(root, Split::Train, Shape::new(8, 8, 3)).unwrap();
    assert_eq!(train.labels(), [0, 1, 2]);
    assert_ne!(train.hash(), test.hash());
    save(root, "val/d/1.png", (8, 8), 4);
    let error = open_as(root, Split::Test, Shape::new(8, 8, 3)).unwrap_err();
    assert!(matches!(&error, DataError::UnknownClass { class, .. } if class == "d"));
}

#[test]
fn a_class_may_be_called_train() {
    let root = tempfile::tempdir().unwrap();
    save(root.path(), "train/1.png", (8, 8), 1);
    save(root.path(), "ship/1.png", (8, 8), 1);
    let dataset = open_as(root.path(), Split::Test, Shape::new(8, 8, 3)).unwrap();
    assert_eq!(dataset.classes(), ["ship", "train"]);
}

#[test]
fn what_is_not_there_is_named() {
    let root = tempfile::tempdir().unwrap();
    let error = open_as(root.path(), Split::Test, Shape::new(8, 8, 3)).unwrap_err();
    assert!(matches!(error, DataError::EmptyFolder { .. }), "{error}");
    save(root.path(), "train/a/1.png", (8, 8), 1);
    let error = open_as(root.path(), Split::Test, Shape::new(8, 8, 3)).unwrap_err();
    assert!(matches!(error, DataError::Missing { .. }), "{error}");
    let error = open_as(&root.path().join("no"), Split::Test, Shape::new(8, 8, 3)).unwrap_err();
    assert!(matches!(error, DataError::UnknownDataset { .. }), "{error}");
    assert!(error.hint().unwrap().contains("digits, cifar10"));
}

#[test]
fn an_unreadable_image_is_named() {
    let root = tempfile::tempdir().unwrap();
    let name = root.path().to_str().unwrap();
    save(root.path(), "a/1.png", (9, 8), 1);
    assert_eq!(verify(name, None).unwrap().len(), 2);
    std::fs::write(root.path().join("a/2.png"), "no image").unwrap();
    let dataset = open_as(root.path(), Split::Test, Shape::new(8, 8, 3)).unwrap();
    let mut image = [0.0; 192];
    dataset.read(0, &mut image).unwrap();
    let error = dataset.read(1, &mut image).unwrap_err();
    assert!(error.to_string().contains("2.png"), "{error}");
    let error = verify(name, None).unwrap_err();
    assert!(error.to_string().contains("2.png"), "{error}");
}

#[test]
fn wrong_indices_and_buffers_are_refused() {
    let root = tempfile::tempdir().unwrap();
    save(root.path(), "a/1.png", (9, 8), 1);
    let dataset = open_as(root.path(), Split::Test, Shape::new(8, 8, 3)).unwrap();
    let mut image = [0.0; 192];
    assert!(matches!(
        dataset.read(1, &mut image),
        Err(DataError::Index { index: 1, len: 1 })
    ));
    assert!(matches!(
        dataset.read(0, &mut image[1..]),
        Err(DataError::Buffer {
            expected: 192,
            got: 191
        })
    ));
}

#[test]
fn resized_crops_are_pure_and_differ_between_epochs() {
    let root = tempfile::tempdir().unwrap();
    save(root.path(), "a/1.png", (60, 50), 100);
    let dataset = open_as(root.path(), Split::Train, Shape::new(16, 16, 3)).unwrap();
    let read = |seed, epoch| {
        let mut image = vec![0.0; 768];
        let augment = &Augment::IMAGENET;
        dataset
            .read_augmented(0, augment, seed, epoch, &mut image)
            .unwrap();
        image
    };
    assert_eq!(read(1, 2), read(1, 2));
    let mut mirrored = 0;
    for epoch in 0..64 {
        let image = read(1, epoch);
        assert_ne!(image, read(1, epoch + 1));
        // The red channel is constant, green grows from left to right.
        assert!(image.iter().step_by(3).all(|&red| red == 100.0 / 255.0));
        mirrored += i32::from(image[1] > image[15 * 3 + 1]);
    }
    // Binomial(64, 1/2) is outside of 8..=56 with probability 1e-10.
    assert!((8..=56).contains(&mirrored), "{mirrored} of 64");
}
