//! The batches of an epoch do not depend on how they are made.

use heatsmooth_data::{
    Augment, DataError, Dataset, Images, Loader, LoaderOptions, OpenOptions, Shape, Split, View,
    encode_png, open,
};
use proptest::prelude::*;

fn digits() -> Dataset {
    open("digits", Split::Test, &OpenOptions::default()).unwrap()
}

/// Eleven small images in three classes.
fn folder(root: &std::path::Path) -> Dataset {
    for index in 0..11u16 {
        let class = root.join(format!("class{}", index % 3));
        std::fs::create_dir_all(&class).unwrap();
        let pixels: Vec<f32> = (0..20 * 17)
            .flat_map(|at| [index, at % 20, at / 20])
            .map(|byte| f32::from(byte) / 255.0)
            .collect();
        let image = encode_png(Shape::new(17, 20, 3), &pixels).unwrap();
        std::fs::write(class.join(format!("{index}.png")), image).unwrap();
    }
    let options = OpenOptions {
        view: View::for_shape(Shape::new(12, 12, 3)),
        ..OpenOptions::default()
    };
    open(root.to_str().unwrap(), Split::Train, &options).unwrap()
}

fn collect(dataset: &Dataset, options: LoaderOptions, recycle: bool) -> Vec<Images> {
    let mut loader = Loader::new(dataset, options).unwrap();
    let mut batches = Vec::new();
    while let Some(batch) = loader.next() {
        let batch = batch.unwrap();
        batches.push(batch.clone());
        if recycle {
            loader.recycle(batch);
        }
    }
    assert_eq!(loader.remaining(), 0);
    batches
}

#[test]
fn an_epoch_is_every_image_once() {
    let dataset = digits();
    let batches = collect(&dataset, LoaderOptions::training(50, &dataset, 3, 4), true);
    assert_eq!(batches.len(), 8);
    assert_eq!(batches[7].len(), 10);
    let mut indices: Vec<u32> = batches.iter().flat_map(|b| b.indices.clone()).collect();
    for batch in &batches {
        assert_eq!(batch.pixels.len(), batch.len() * 64);
        for (&index, &label) in batch.indices.iter().zip(&batch.labels) {
            assert_eq!(dataset.labels()[index as usize], label);
        }
    }
    indices.sort_unstable();
    assert!(indices.into_iter().eq(0..360));
}

#[test]
fn images_that_are_held_out_are_never_delivered() {
    let dataset = digits();
    let first = dataset.first(300);
    assert_eq!((first.len(), first.labels().len()), (300, 300));
    let batches = collect(&first, LoaderOptions::training(64, &first, 3, 4), false);
    let mut indices: Vec<u32> = batches.iter().flat_map(|b| b.indices.clone()).collect();
    indices.sort_unstable();
    assert!(indices.into_iter().eq(0..300));
    assert!(first.read(300, &mut [0.0; 64]).is_err());
    assert_eq!(dataset.first(9999).len(), 360);
}

#[test]
fn evaluation_is_in_order_and_unvaried() {
    let dataset = digits();
    let batches = collect(&dataset, LoaderOptions::evaluation(100), true);
    let mut expected = vec![0.0; 64];
    for batch in &batches {
        for (&index, image) in batch.indices.iter().zip(batch.pixels.chunks(64)) {
            dataset.read(index as usize, &mut expected).unwrap();
            assert_eq!(image, expected);
        }
    }
    assert!(batches.iter().flat_map(|b| &b.indices).copied().eq(0..360));
}

#[test]
fn a_last_batch_that_is_not_full_can_be_left_out() {
    let dataset = digits();
    let options = LoaderOptions {
        drop_last: true,
        ..LoaderOptions::evaluation(50)
    };
    let batches = collect(&dataset, options, true);
    assert_eq!(batches.len(), 7);
    assert!(batches.iter().all(|batch| batch.len() == 50));
}

#[test]
fn prefetching_threads_and_recycling_change_nothing() {
    let root = tempfile::tempdir().unwrap();
    let dataset = folder(root.path());
    for augment in [
        Augment::None,
        Augment::IMAGENET,
        Augment::CropFlip {
            padding: 3,
            flip: true,
        },
    ] {
        let options = |prefetch, threads| LoaderOptions {
            augment,
            prefetch,
            threads,
            ..LoaderOptions::training(4, &dataset, 9, 2)
        };
        let expected = collect(&dataset, options(0, None), false);
        assert_eq!(expected.len(), 3);
        for prefetch in [0, 1, 2, 7] {
            for threads in [None, Some(1), Some(3)] {
                let batches = collect(&dataset, options(prefetch, threads), true);
                assert_eq!(batches, expected, "{prefetch} {threads:?}");
            }
        }
    }
}

#[test]
fn a_loader_can_be_dropped_in_the_middle() {
    let root = tempfile::tempdir().unwrap();
    let dataset = folder(root.path());
    let mut loader = Loader::new(&dataset, LoaderOptions::training(1, &dataset, 0, 0)).unwrap();
    loader.next().unwrap().unwrap();
    assert_eq!(loader.remaining(), 10);
    drop(loader);
}

#[test]
fn an_unreadable_image_ends_the_epoch_with_its_name() {
    let root = tempfile::tempdir().unwrap();
    let dataset = folder(root.path());
    std::fs::write(root.path().join("class1/4.png"), "no image").unwrap();
    for prefetch in [0, 2] {
        let options = LoaderOptions {
            prefetch,
            ..LoaderOptions::evaluation(2)
        };
        let results: Vec<_> = Loader::new(&dataset, options).unwrap().collect();
        let (last, before) = results.split_last().unwrap();
        assert!(before.iter().all(Result::is_ok));
        let error = last.as_ref().unwrap_err();
        assert!(error.to_string().contains("4.png"), "{error}");
    }
}

#[test]
fn empty_batches_and_senseless_padding_are_refused() {
    let dataset = digits();
    let refused = |options| {
        matches!(
            Loader::new(&dataset, options),
            Err(DataError::Setting { .. })
        )
    };
    assert!(refused(LoaderOptions::evaluation(0)));
    assert!(refused(LoaderOptions {
        augment: Augment::CropFlip {
            padding: 8,
            flip: false
        },
        ..LoaderOptions::evaluation(4)
    }));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn an_epoch_can_be_continued_at_any_batch(
        start in 0usize..12, batch_size in 30usize..90, seed: u64, epoch: u64,
    ) {
        let dataset = digits();
        let options = |start_batch| LoaderOptions {
            start_batch,
            ..LoaderOptions::training(batch_size, &dataset, seed, epoch)
        };
        let whole = collect(&dataset, options(0), true);
        let rest = collect(&dataset, options(start), false);
        prop_assert_eq!(&whole[start.min(whole.len())..], rest.as_slice());
    }

    #[test]
    fn an_image_s_augmentation_ignores_its_neighbours(
        index in 0usize..360, seed: u64, epoch: u64, padding in 0usize..8, flip: bool,
    ) {
        let dataset = digits();
        let augment = Augment::CropFlip { padding, flip };
        let mut alone = vec![0.0; 64];
        dataset.read_augmented(index, &augment, seed, epoch, &mut alone).unwrap();
        let options = LoaderOptions { augment, ..LoaderOptions::training(70, &dataset, seed, epoch) };
        let found = collect(&dataset, options, true)
            .into_iter()
            .find_map(|batch| {
                let at = batch.indices.iter().position(|&i| i as usize == index)?;
                Some(batch.image(at).to_vec())
            });
        prop_assert_eq!(found, Some(alone));
    }
}
