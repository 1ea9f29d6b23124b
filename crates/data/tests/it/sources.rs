//! The same images from folders, tar shards, Parquet tables, arrays and packs.

use std::path::{Path, PathBuf};

use heatsmooth_data::{
    BrokenImages, DataError, Dataset, Fault, Loader, LoaderOptions, OddImages, OpenOptions,
    PackOptions, Shape, Split, View, encode_png, open, pack, packed_view, verify,
};

const SHAPE: Shape = Shape::new(32, 32, 3);

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/goldens")
        .join(name)
}

fn options() -> OpenOptions {
    OpenOptions {
        view: View::for_shape(SHAPE),
        ..OpenOptions::default()
    }
}

fn open_at(path: &Path, split: Split) -> Result<Dataset, DataError> {
    open(path.to_str().unwrap(), split, &options())
}

/// Pixels and labels of all images.
fn content(dataset: &Dataset) -> (Vec<f32>, Vec<u32>) {
    let images = dataset.images(0..dataset.len() as u32).unwrap();
    (images.pixels, images.labels)
}

/// The files of the golden tables, in their order, with their classes.
const ROWS: [(&str, &str); 5] = [
    ("photo.png", "n01440764"),
    ("soft.jpg", "n01443537"),
    ("grey.png", "n01443537"),
    ("tall.png", "n01440764"),
    ("scene-420.jpg", "n01443537"),
];

/// An archive of files with content.
fn tar(path: &Path, files: &[(String, Vec<u8>)]) {
    let mut archive = tar::Builder::new(std::fs::File::create(path).unwrap());
    for (name, bytes) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        archive.append_data(&mut header, name, &bytes[..]).unwrap();
    }
    archive.finish().unwrap();
}

/// The golden images as an archive with class folders, in the order of the tables.
fn class_tar(path: &Path) {
    let file = |(name, class): &(&str, &str)| {
        let bytes = std::fs::read(golden(name)).unwrap();
        (format!("{class}/{name}"), bytes)
    };
    tar(path, &ROWS.iter().map(file).collect::<Vec<_>>());
}

#[test]
fn tables_hold_what_archives_hold() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("all.tar");
    class_tar(&path);
    let archive = open_at(&path, Split::Test).unwrap();
    assert_eq!(archive.classes(), ["n01440764", "n01443537"]);
    assert_eq!(archive.labels(), [0, 1, 1, 0, 1]);
    for name in ["snappy.parquet", "plain.parquet", "second.parquet"] {
        let table = open_at(&golden(name), Split::Test).unwrap();
        assert_eq!(table.classes(), archive.classes(), "{name}");
        assert!(content(&table) == content(&archive), "{name}");
        assert_eq!(table.hash(), archive.hash(), "{name}");
        assert!(table.is_whole());
        let place = table.place(1).unwrap();
        assert!(place.ends_with("n01443537/soft.jpg"), "{place:?}");
    }
    let error = open_at(&golden("zstd.parquet"), Split::Test).unwrap_err();
    assert!(error.to_string().contains("Zstandard"), "{error}");
}

#[test]
fn a_folder_and_its_archive_are_the_same_data() {
    let root = tempfile::tempdir().unwrap();
    let [folder, archives] = ["folder", "archives"].map(|name| root.path().join(name));
    std::fs::create_dir_all(&archives).unwrap();
    for (split, suffix) in [("train", "a"), ("val", "b")] {
        let mut files = Vec::new();
        for (name, class) in ROWS {
            let name = format!("{class}_{suffix}_{name}");
            let path = folder.join(split).join(class).join(&name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            let bytes = std::fs::read(golden(&name[12..])).unwrap();
            std::fs::write(&path, &bytes).unwrap();
            files.push((format!("{class}/{name}"), bytes));
        }
        files.sort();
        // Two archives: a shard ends anywhere.
        tar(&archives.join(format!("set-{split}-000.tar")), &files[..2]);
        tar(&archives.join(format!("set-{split}-001.tar")), &files[2..]);
    }
    for split in [Split::Train, Split::Test] {
        let one = open_at(&folder, split).unwrap();
        let other = open_at(&archives, split).unwrap();
        assert!(content(&one) == content(&other));
        assert_eq!(one.hash(), other.hash());
        assert_eq!(one.classes(), other.classes());
        // The same epoch, from its middle on, too.
        let batches = |dataset: &Dataset, start| {
            let mut options = LoaderOptions::training(2, dataset, 3, 4);
            options.start_batch = start;
            let loader = Loader::new(dataset, options).unwrap();
            loader
                .map(|batch| batch.unwrap().pixels)
                .collect::<Vec<_>>()
        };
        let whole = batches(&one, 0);
        assert!(whole == batches(&other, 0));
        assert!(whole[1..] == batches(&other, 1)[..]);
    }
}

#[test]
fn labels_stand_beside_images() {
    let root = tempfile::tempdir().unwrap();
    let image = |name: &str| std::fs::read(golden(name)).unwrap();
    let text = |text: &str| text.as_bytes().to_vec();
    let path = root.path().join("set-train-0.tar");
    tar(
        &path,
        &[
            ("000.cls".into(), text("3\n")),
            ("000.jpg".into(), image("soft.jpg")),
            ("001.png".into(), image("photo.png")),
            ("001.json".into(), text("{\"label\": 1}")),
            ("002.png".into(), image("photo.png")),
            ("002.cls".into(), text("0")),
            ("notes.txt".into(), text("text")),
        ],
    );
    let test = root.path().join("set-validation-0.tar");
    tar(
        &test,
        &[
            ("000.cls".into(), text("1")),
            ("000.jpg".into(), image("soft.jpg")),
        ],
    );
    let train = open_at(root.path(), Split::Train).unwrap();
    assert_eq!(train.labels(), [3, 1, 0]);
    assert_eq!(train.ignored_files(), 1);
    let set = open_at(root.path(), Split::Test).unwrap();
    assert_eq!((set.labels(), set.classes().len()), (&[1][..], 4));
    std::fs::write(root.path().join("classes.txt"), "ant\nbee\ncat\ndog\n").unwrap();
    let set = open_at(root.path(), Split::Test).unwrap();
    assert_eq!(set.classes()[1], "bee");
    std::fs::write(root.path().join("classes.txt"), "ant\nbee\n").unwrap();
    let error = open_at(root.path(), Split::Train).unwrap_err();
    assert!(error.to_string().contains("names 2 classes"), "{error}");
    std::fs::remove_file(root.path().join("classes.txt")).unwrap();
    for (files, expected) in [
        (vec![("0.cls", "cat"), ("0.jpg", "x")], "number of a class"),
        (
            vec![("0.cls", "1"), ("0.jpg", "x"), ("1.jpg", "y")],
            "have no label",
        ),
        (vec![("n01440764.tar", "x")], "archive of archives"),
        (vec![("a.txt", "x")], "holds no PNG or JPEG"),
    ] {
        let files = files
            .iter()
            .map(|(name, content)| (name.to_string(), text(content)));
        tar(&path, &files.collect::<Vec<_>>());
        let error = open_at(&path, Split::Train).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
    let whole = std::fs::read(&test).unwrap();
    std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    assert!(open_at(&path, Split::Train).is_err());
}

/// Every file cut short or with a byte changed is refused or read, never a panic.
#[test]
fn damaged_tables_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.parquet");
    for name in ["snappy.parquet", "second.parquet"] {
        let whole = std::fs::read(golden(name)).unwrap();
        for cut in (0..whole.len()).step_by(whole.len() / 40) {
            std::fs::write(&path, &whole[..cut]).unwrap();
            assert!(open_at(&path, Split::Test).is_err(), "{name} cut at {cut}");
        }
        for seed in 0..150usize {
            let mut bytes = whole.clone();
            // Mostly in the description at the end.
            let last = bytes.len() - 1;
            let at = if seed % 4 == 0 {
                seed * 7919 % last
            } else {
                last - seed * 31 % 3000
            };
            bytes[at] ^= 1 << (seed % 8);
            std::fs::write(&path, &bytes).unwrap();
            if let Ok(dataset) = open_at(&path, Split::Test) {
                let mut image = vec![0.0; SHAPE.len()];
                for index in 0..dataset.len().min(8) {
                    let _ = dataset.read(index, &mut image);
                }
            }
        }
    }
}

fn bad_folder(root: &Path) {
    let put = |name: &str, bytes: &[u8]| {
        let path = root.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    };
    let read = |name: &str| std::fs::read(golden(name)).unwrap();
    put("n01440764/n01440764_1.png", &read("photo.png"));
    put("n01440764/n01440764_2.JPEG", &read("photo.png"));
    put("n01440764/n01440764_3.JPEG", &read("soft.jpg")[..300]);
    put("n01440764/n01443537_4.JPEG", &read("soft.jpg"));
    put("n01443537/n01443537_5.JPEG", &read("cmyk.jpg"));
    put("n01443537/n01443537_6.png", &read("sixteen.png"));
    put("n01443537/n01443537_7.JPEG", &read("soft.jpg"));
}

#[test]
fn bad_images_are_named_counted_and_skipped_or_refused() {
    let root = tempfile::tempdir().unwrap();
    bad_folder(root.path());
    let open_with = |broken, odd| {
        let options = OpenOptions {
            broken,
            odd,
            ..options()
        };
        open(root.path().to_str().unwrap(), Split::Test, &options)
    };
    let all = open_with(BrokenImages::Refuse, OddImages::Convert).unwrap();
    assert_eq!(all.len(), 7);
    let skipped = open_with(BrokenImages::Skip, OddImages::Convert).unwrap();
    assert_eq!(skipped.len(), 6);
    assert_ne!(skipped.hash(), all.hash());
    assert_eq!(skipped.labels(), [0, 0, 0, 1, 1, 1]);
    let notes = skipped.notes().join("\n");
    assert!(
        notes.contains("1 broken") && notes.contains("n01440764_3.JPEG"),
        "{notes}"
    );
    let good = open_with(BrokenImages::Skip, OddImages::Skip).unwrap();
    assert_eq!((good.len(), good.labels()), (2, &[0, 1][..]));
    let faults: Vec<&Fault> = good.findings().iter().map(|f| &f.fault).collect();
    assert!(matches!(
        faults[..],
        [
            Fault::OtherFormat,
            Fault::Broken(_),
            Fault::OtherClass(_),
            Fault::Cmyk,
            Fault::SixteenBits
        ]
    ));
    content(&good);
    assert!(good.place(1).unwrap().ends_with("n01443537_7.JPEG"));
    let error = open_with(BrokenImages::Skip, OddImages::Refuse).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("1 CMYK") && text.contains("1 of 16 bits"),
        "{text}"
    );
    assert!(error.hint().unwrap().contains("skipped"));
    let error = verify(root.path().to_str().unwrap(), None).unwrap_err();
    assert!(error.to_string().contains("n01440764_3.JPEG"), "{error}");
    std::fs::remove_file(root.path().join("n01440764/n01440764_3.JPEG")).unwrap();
    let verified = verify(root.path().to_str().unwrap(), None).unwrap();
    assert_eq!(verified[0].odd.len(), 4);
    // Where images are no files, there is nothing to choose.
    let options = OpenOptions {
        broken: BrokenImages::Skip,
        ..OpenOptions::default()
    };
    assert!(open("digits", Split::Test, &options).is_err());
}

#[test]
fn a_pack_shows_the_same_pixels() {
    let root = tempfile::tempdir().unwrap();
    let (folder, out) = (root.path().join("images"), root.path().join("pack"));
    bad_folder(&folder);
    let large = |at: usize| [at % 251, at % 13 * 17, at / 7 % 256].map(|v| v as f32 / 255.0);
    let image: Vec<f32> = (0..90 * 50).flat_map(large).collect();
    let image = encode_png(Shape::new(90, 50, 3), &image).unwrap();
    std::fs::write(folder.join("n01440764/tall.png"), image).unwrap();
    let name = folder.to_str().unwrap();
    for shape in [SHAPE, Shape::new(140, 140, 3), Shape::new(20, 30, 1)] {
        let view = View::for_shape(shape);
        let _ = std::fs::remove_dir_all(&out);
        let packing = PackOptions {
            view,
            ..PackOptions::default()
        };
        let error = pack(name, &out, &packing, &()).unwrap_err();
        assert!(error.to_string().contains("n01440764_3.JPEG"), "{error}");
        let packing = PackOptions {
            broken: BrokenImages::Skip,
            ..packing
        };
        let packed = pack(name, &out, &packing, &()).unwrap();
        assert_eq!(
            (packed.len(), packed[0].len, packed[0].split),
            (1, 7, "all")
        );
        assert_eq!(packed[0].left_out.len(), 1);
        assert_eq!(packed_view(&out), Some(view));
        // Who may read it is who may read any new file.
        let plain = folder.join("n01440764/tall.png").metadata().unwrap();
        for file in std::fs::read_dir(&out).unwrap() {
            let made = file.unwrap().metadata().unwrap();
            assert_eq!(made.permissions(), plain.permissions());
        }
        // Running it again changes nothing.
        let again = pack(name, &out, &packing, &()).unwrap();
        assert_eq!(again[0].hash, packed[0].hash);
        let options = OpenOptions {
            view,
            broken: BrokenImages::Skip,
            ..OpenOptions::default()
        };
        let original = open(name, Split::Test, &options).unwrap();
        let options = OpenOptions {
            view,
            ..OpenOptions::default()
        };
        let fast = open(out.to_str().unwrap(), Split::Test, &options).unwrap();
        assert_eq!(fast.hash(), packed[0].hash);
        assert_eq!(fast.classes(), original.classes());
        assert!(content(&fast) == content(&original), "{shape}");
        let other = OpenOptions {
            view: View::for_shape(Shape::new(64, 64, 3)),
            ..OpenOptions::default()
        };
        let error = open(out.to_str().unwrap(), Split::Test, &other).unwrap_err();
        assert!(error.to_string().contains("packed for"), "{error}");
    }
    // A damaged pixel is found when it is read, a damaged table when it is opened.
    let part = out.join("all-00000.pack");
    let whole = std::fs::read(&part).unwrap();
    let options = OpenOptions {
        view: View::for_shape(Shape::new(20, 30, 1)),
        ..OpenOptions::default()
    };
    let open_pack = || open(out.to_str().unwrap(), Split::Test, &options);
    let mut damaged = whole.clone();
    damaged[5] ^= 1;
    std::fs::write(&part, &damaged).unwrap();
    let error = open_pack().unwrap().images([0]).unwrap_err();
    assert!(error.to_string().contains("damaged"), "{error}");
    for cut in [0, 10, whole.len() / 2, whole.len() - 1] {
        std::fs::write(&part, &whole[..cut]).unwrap();
        assert!(open_pack().is_err(), "cut at {cut}");
    }
}

#[test]
fn imagenet_s_own_tables_label_the_validation_images() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    let kit = root.join("ILSVRC2012_devkit_t12/data");
    std::fs::create_dir_all(&kit).unwrap();
    std::fs::copy(golden("meta.mat"), kit.join("meta.mat")).unwrap();
    let truth = kit.join("ILSVRC2012_validation_ground_truth.txt");
    std::fs::write(&truth, "1\n2\n3\n2\n").unwrap();
    let soft = std::fs::read(golden("soft.jpg")).unwrap();
    for class in ["n01440764", "n01443537", "n01484850"] {
        let folder = root.join("train").join(class);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(format!("{class}_1.JPEG")), &soft).unwrap();
    }
    std::fs::create_dir_all(root.join("val")).unwrap();
    for number in 1..=4 {
        let name = format!("val/ILSVRC2012_val_{number:08}.JPEG");
        std::fs::write(root.join(name), &soft).unwrap();
    }
    let test = open_at(root, Split::Test).unwrap();
    assert_eq!(test.labels(), [1, 0, 2, 0]);
    assert_eq!(test.classes(), ["n01440764", "n01443537", "n01484850"]);
    assert_eq!(test.class_words()[0], "tench, Tinca tinca");
    assert!(!test.is_whole());
    let train = open_at(root, Split::Train).unwrap();
    assert_eq!(train.class_words(), test.class_words());
    // A network that calls its classes by words.
    let words = [
        "goldfish, Carassius auratus",
        "tench, Tinca tinca",
        "great white shark, white shark",
    ];
    let matched = test.with_classes(&words.map(String::from)).unwrap();
    assert_eq!(matched.labels(), [0, 1, 2, 1]);
    std::fs::write(&truth, "1\n2\n").unwrap();
    let error = open_at(root, Split::Test).unwrap_err();
    assert!(error.to_string().contains("val_00000003"), "{error}");
    std::fs::write(&truth, "1\n2\n9\n2\n").unwrap();
    let error = open_at(root, Split::Test).unwrap_err();
    assert!(error.to_string().contains("line 3"), "{error}");
    // Kaggle's tables instead.
    std::fs::remove_dir_all(root.join("ILSVRC2012_devkit_t12")).unwrap();
    let solution = "ImageId,PredictionString\nILSVRC2012_val_00000001,n01484850 1 2 3 4\n\
        ILSVRC2012_val_00000002,n01440764 1 2 3 4 n01440764 5 6 7 8\n\
        ILSVRC2012_val_00000003,n01440764 1 2 3 4\nILSVRC2012_val_00000004,n01443537 1 2 3 4\n";
    std::fs::write(root.join("LOC_val_solution.csv"), solution).unwrap();
    let mapping = "n01440764 tench, Tinca tinca\nn01443537 goldfish\nn01484850 shark\n";
    std::fs::write(root.join("LOC_synset_mapping.txt"), mapping).unwrap();
    let test = open_at(root, Split::Test).unwrap();
    assert_eq!(test.labels(), [2, 0, 0, 1]);
    assert_eq!(test.class_words()[2], "shark");
}

#[test]
fn arrays_are_read_from_the_disk() {
    let root = tempfile::tempdir().unwrap();
    let npy = |name: &str, kind: &str, shape: &str, bytes: &[u8]| {
        let mut head = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}");
        head.push('\n');
        let mut file = b"\x93NUMPY\x01\x00".to_vec();
        file.extend((head.len() as u16).to_le_bytes());
        file.extend(head.as_bytes());
        file.extend(bytes);
        let path = root.path().join(name);
        std::fs::write(&path, file).unwrap();
        path
    };
    let pixels: Vec<u8> = (0..3 * 2 * 2 * 3).map(|v| v as u8 * 7).collect();
    npy("train_images.npy", "|u1", "(3, 2, 2, 3)", &pixels);
    npy("train_labels.npy", "|u1", "(3,)", &[0, 2, 1]);
    let test = npy("test_images.npy", "|u1", "(1, 2, 2, 3)", &pixels[12..24]);
    npy("test_labels.npy", "|u1", "(1,)", &[1]);
    let set = open_at(root.path(), Split::Train).unwrap();
    assert_eq!(
        (set.len(), set.labels(), set.classes().len()),
        (3, &[0, 2, 1][..], 3)
    );
    let image = set.images([1]).unwrap();
    assert_eq!(image.pixels[0], f32::from(pixels[12]) / 255.0);
    let set = open_at(root.path(), Split::Test).unwrap();
    assert_eq!((set.labels(), set.classes().len()), (&[1][..], 3));
    let alone = open_at(&test, Split::Test).unwrap();
    assert!(alone.is_whole() && alone.labels().is_empty());
    let bytes = std::fs::read(&test).unwrap();
    std::fs::write(&test, &bytes[..bytes.len() - 1]).unwrap();
    assert!(open_at(&test, Split::Test).is_err());
    npy(
        "test_images.npy",
        "<f4",
        "(1, 2, 2, 3)",
        &pixels[..48.min(pixels.len())],
    );
    assert!(open_at(&test, Split::Test).is_err());
}

/// A few bytes changed, cut out, repeated or moved; a function of the number.
fn changed(bytes: &[u8], number: u64) -> Vec<u8> {
    let mut state = number;
    let mut below = move |bound: usize| {
        // SplitMix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound.max(1) as u64) as usize
    };
    let mut bytes = bytes.to_vec();
    for _ in 0..1 + below(4) {
        // What says how a file is read stands at its ends.
        let at = match below(3) {
            0 => below(bytes.len().min(600)),
            1 => bytes.len() - 1 - below(bytes.len().min(1500)),
            _ => below(bytes.len()),
        };
        match below(5) {
            0 => bytes[at] ^= 1 << below(8),
            1 => bytes[at] = [0, 0xff, 0x7f, 0x80][below(4)],
            2 => bytes.truncate(at + 1),
            3 => drop(bytes.drain(at..(at + 1 + below(8)).min(bytes.len() - 1).max(at))),
            _ => {
                let some = bytes[at..(at + 8).min(bytes.len())].to_vec();
                bytes.splice(at..at, some);
            }
        }
        if bytes.is_empty() {
            break;
        }
    }
    bytes
}

#[test]
fn changed_files_give_images_or_errors() {
    let root = tempfile::tempdir().unwrap();
    let archive = root.path().join("all.tar");
    class_tar(&archive);
    let (images, packed) = (root.path().join("images"), root.path().join("pack"));
    for (name, class) in ROWS {
        std::fs::create_dir_all(images.join(class)).unwrap();
        std::fs::copy(golden(name), images.join(class).join(name)).unwrap();
    }
    let packing = PackOptions {
        view: View::for_shape(SHAPE),
        ..PackOptions::default()
    };
    pack(images.to_str().unwrap(), &packed, &packing, &()).unwrap();
    let files = [
        (archive.clone(), archive.clone()),
        (golden("plain.parquet"), root.path().join("plain.parquet")),
        (golden("snappy.parquet"), root.path().join("snappy.parquet")),
        (packed.join("all-00000.pack"), packed.join("all-00000.pack")),
        (packed.join("pack-all.json"), packed.join("pack-all.json")),
    ];
    let mut opened = 0;
    for (from, to) in files {
        let whole = std::fs::read(&from).unwrap();
        let at = if to.starts_with(&packed) {
            &packed
        } else {
            &to
        };
        for number in 0..300 {
            std::fs::write(&to, changed(&whole, number)).unwrap();
            if let Ok(dataset) = open_at(at, Split::Test) {
                opened += 1;
                for image in 0..dataset.len().min(8) as u32 {
                    let _ = dataset.images([image]);
                }
            }
        }
        std::fs::write(&to, &whole).unwrap();
        assert!(open_at(at, Split::Test).is_ok(), "{}", to.display());
    }
    // Neither refused all alike, nor taken.
    assert!((50..1450).contains(&opened), "{opened}");
}
