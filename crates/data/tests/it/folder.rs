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
        view: View::for_shape(shape),
        ..OpenOptions::default()
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
fn issue_17_point_11_the_hash_follows_every_byte_of_every_image() {
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
    // One byte, and neither name nor size: an edited picture.
    let file = root.join("a/1.png");
    let mut bytes = std::fs::read(&file).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&file, &bytes).unwrap();
    let edited = hash();
    assert_ne!(second, edited);
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&file, &bytes).unwrap();
    assert_eq!(second, hash());
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
fn issue_17_point_9_a_folder_without_splits_says_so() {
    let root = tempfile::tempdir().unwrap();
    let shape = Shape::new(8, 8, 3);
    save(root.path(), "a/1.png", (8, 8), 1);
    for split in [Split::Train, Split::Test] {
        let dataset = open_as(root.path(), split, shape).unwrap();
        assert!(dataset.is_whole());
        assert_eq!(dataset.split_name(), "all");
    }
    let split = root.path().join("split");
    save(&split, "train/a/1.png", (8, 8), 1);
    save(&split, "test/a/2.png", (8, 8), 1);
    let dataset = open_as(&split, Split::Test, shape).unwrap();
    assert_eq!((dataset.is_whole(), dataset.split_name()), (false, "test"));
}

#[test]
fn issue_17_point_5_a_folder_says_how_its_images_are_resized() {
    let root = tempfile::tempdir().unwrap();
    save(root.path(), "a/1.png", (8, 8), 1);
    for (shape, words) in [
        (
            Shape::new(224, 224, 3),
            "cover 256x256, and the 224x224 pixels in the centre",
        ),
        (
            Shape::new(32, 32, 3),
            "cover 32x32, and what sticks out is cropped",
        ),
        (Shape::new(32, 32, 1), "32x32 grey"),
    ] {
        let notes = open_as(root.path(), Split::Test, shape).unwrap().notes();
        assert!(notes[0].contains(words), "{notes:?}");
    }
}

#[cfg(unix)]
#[test]
fn issue_17_point_30_a_class_folder_that_is_not_text_is_named() {
    use std::os::unix::ffi::OsStrExt;
    let root = tempfile::tempdir().unwrap();
    save(root.path(), "a/1.png", (8, 8), 1);
    let odd = root.path().join(std::ffi::OsStr::from_bytes(b"caf\xe9"));
    std::fs::create_dir(&odd).unwrap();
    let error = open_as(root.path(), Split::Test, Shape::new(8, 8, 3)).unwrap_err();
    assert!(matches!(error, DataError::ClassName { .. }), "{error}");
    // The name of an image matters to nobody.
    std::fs::remove_dir(&odd).unwrap();
    let from = root.path().join("a/1.png");
    std::fs::rename(
        from,
        root.path()
            .join("a")
            .join(std::ffi::OsStr::from_bytes(b"\xe9.png")),
    )
    .unwrap();
    let dataset = open_as(root.path(), Split::Test, Shape::new(8, 8, 3)).unwrap();
    dataset.read(0, &mut [0.0; 192]).unwrap();
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
    let verified = verify(name, None).unwrap();
    assert_eq!((verified.len(), verified[0].split), (1, "all"));
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
