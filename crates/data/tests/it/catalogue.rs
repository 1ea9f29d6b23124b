//! Names, roots and states of data sets.

use heatsmooth_data::{
    Augment, DataError, FetchOptions, OpenOptions, Shape, Split, State, fetch, list, open, verify,
};

#[test]
fn the_catalogue_says_what_is_missing_and_where_it_belongs() {
    let root = tempfile::tempdir().unwrap();
    let mnist = root.path().join("mnist");
    std::fs::create_dir(&mnist).unwrap();
    std::fs::write(mnist.join("t10k-labels-idx1-ubyte"), "").unwrap();
    let entries = list(Some(root.path())).unwrap();
    let names: Vec<&str> = entries.iter().map(|entry| entry.name).collect();
    assert_eq!(
        names,
        [
            "digits",
            "cifar10",
            "fashion-mnist",
            "mnist",
            "imagenet",
            "cifar100",
            "svhn",
            "tiny-imagenet",
            "medmnist/pathmnist",
            "medmnist/dermamnist",
            "medmnist/octmnist",
            "medmnist/pneumoniamnist",
            "medmnist/retinamnist",
            "medmnist/breastmnist",
            "medmnist/bloodmnist",
            "medmnist/tissuemnist",
            "medmnist/organamnist",
            "medmnist/organcmnist",
            "medmnist/organsmnist",
        ]
    );
    assert_eq!(entries[0].state, State::Embedded);
    let State::Absent(missing) = &entries[1].state else {
        panic!("cifar10 cannot be there");
    };
    assert_eq!(missing.len(), 6);
    assert_eq!(entries[1].path, Some(root.path().join("cifar10")));
    let State::Absent(missing) = &entries[3].state else {
        panic!("mnist cannot be whole");
    };
    assert_eq!(missing.len(), 3);
}

#[test]
fn absent_data_sets_come_with_the_way_to_get_them() {
    let root = tempfile::tempdir().unwrap();
    let options = OpenOptions {
        root: Some(root.path().into()),
        ..OpenOptions::default()
    };
    let error = open("cifar10", Split::Train, &options).unwrap_err();
    assert_eq!(error.hint().unwrap(), "fetch cifar10 first");
    assert_eq!(error.to_fetch(), Some("cifar10"));
    let error = open("imagenet", Split::Train, &options).unwrap_err();
    let folder = root.path().join("imagenet");
    assert_eq!(
        error.hint().unwrap(),
        format!("put the files at {}", folder.display())
    );
}

#[test]
fn imagenet_is_a_folder_below_the_root() {
    let root = tempfile::tempdir().unwrap();
    for split in ["train", "val"] {
        let class = root.path().join("imagenet").join(split).join("n01440764");
        std::fs::create_dir_all(&class).unwrap();
        std::fs::copy("tests/goldens/soft.jpg", class.join("1.JPEG")).unwrap();
    }
    let verified = verify("imagenet", Some(root.path())).unwrap();
    assert!(verified.iter().all(|split| split.len == 1));
    let options = OpenOptions {
        root: Some(root.path().into()),
        ..OpenOptions::default()
    };
    let dataset = open("imagenet", Split::Test, &options).unwrap();
    assert_eq!(dataset.shape(), Shape::new(224, 224, 3));
    assert_eq!(dataset.default_augment(), Augment::IMAGENET);
    assert_eq!(dataset.name(), "imagenet");
}

#[test]
fn digits_need_no_files() {
    let root = tempfile::tempdir().unwrap();
    let verified = verify("digits", Some(root.path())).unwrap();
    assert_eq!((verified[0].len, verified[1].len), (1437, 360));
    let options = FetchOptions {
        root: Some(root.path().into()),
        from: None,
    };
    assert_eq!(fetch("digits", &options, &()).unwrap().source, None);
    assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0);
}

#[test]
fn what_cannot_be_fetched_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let options = FetchOptions {
        root: Some(root.path().into()),
        from: None,
    };
    let error = fetch("imagenet", &options, &()).unwrap_err();
    assert!(matches!(error, DataError::NotFetchable { .. }), "{error}");
    let error = fetch("cifar11", &options, &()).unwrap_err();
    assert!(matches!(error, DataError::UnknownDataset { .. }), "{error}");
}

#[test]
fn splits_are_written_as_they_are_read() {
    for split in [Split::Train, Split::Test] {
        assert_eq!(split.to_string().parse::<Split>().unwrap(), split);
    }
    assert!("val".parse::<Split>().is_err());
}
