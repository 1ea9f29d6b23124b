//! Galleries: written image by image, reopened, refused.

use std::fs;

use heatsmooth_record::{DataId, Gallery, GalleryWriter, ModelId, Pictures};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n...";

fn header() -> Gallery {
    Gallery {
        format: Gallery::FORMAT.into(),
        version: Gallery::VERSION,
        method: "heat".into(),
        label: None,
        model: ModelId {
            sha256: "aa".into(),
            identity: None,
            path: None,
        },
        data: DataId::default(),
        sigma: Some(0.25),
        attack: Some("pgd".into()),
        seed: 0,
        classes: vec!["zero".into(), "one".into()],
        images: vec![],
    }
}

#[test]
fn images_are_added_in_order_and_survive_reopening() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("gallery");
    let mut writer = GalleryWriter::open(&folder, header()).unwrap();
    let pictures = Pictures {
        original: PNG,
        noisy: Some((PNG, Some(1))),
        adversarial: Some((PNG, Some(0), 0.5)),
        difference: Some((PNG, 20)),
        side_by_side: Some(PNG),
    };
    writer.add(7, 1, Some(1), &pictures).unwrap();
    drop(writer);
    let mut writer = GalleryWriter::open(&folder, header()).unwrap();
    assert!(writer.contains(7) && writer.len() == 1);
    writer
        .add(
            2,
            0,
            None,
            &Pictures {
                original: PNG,
                ..Pictures::default()
            },
        )
        .unwrap();
    let gallery = Gallery::read(&folder.join(Gallery::FILE)).unwrap();
    let indices: Vec<u64> = gallery.images.iter().map(|image| image.idx).collect();
    assert_eq!(indices, [2, 7]);
    let adversarial = gallery.images[1].adversarial.as_ref().unwrap();
    assert_eq!(
        (adversarial.picture.as_str(), adversarial.l2),
        ("000007-adversarial.png", 0.5)
    );
    assert_eq!(fs::read(folder.join(&adversarial.picture)).unwrap(), PNG);
    let difference = adversarial.difference.as_ref().unwrap();
    assert_eq!(difference.factor, 20);
    assert_eq!(difference.picture, "000007-difference-x20.png");
    assert!(folder.join("000007-side-by-side-x20.png").exists());

    let other = Gallery {
        seed: 3,
        ..header()
    };
    let error = GalleryWriter::open(&folder, other).unwrap_err();
    assert!(
        error.to_string().ends_with("seed is 0, wanted 3"),
        "{error}"
    );
    let bad = Pictures {
        original: b"GIF89a",
        ..Pictures::default()
    };
    assert!(writer.add(3, 0, None, &bad).is_err());
}

#[test]
fn a_picture_outside_the_folder_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = GalleryWriter::open(folder.path(), header()).unwrap();
    writer
        .add(
            0,
            0,
            None,
            &Pictures {
                original: PNG,
                ..Pictures::default()
            },
        )
        .unwrap();
    let path = folder.path().join(Gallery::FILE);
    let text = fs::read_to_string(&path).unwrap();
    for name in ["../secret.png", "/etc/passwd", "C:\\\\x.png", ".hidden", ""] {
        fs::write(&path, text.replace("000000-original.png", name)).unwrap();
        let error = Gallery::read(&path).unwrap_err().to_string();
        assert!(error.contains("not a plain file name"), "{error}");
    }
}
