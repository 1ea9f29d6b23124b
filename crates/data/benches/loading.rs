//! Images a second from a data set, decoded (or unpacked), resized and cropped:
//! `cargo bench -p heatsmooth-data --bench loading -- DATA train|test THREADS`.
//! `bench/loading.py` runs it beside PyTorch.

use std::time::Instant;

use heatsmooth_data::{Loader, LoaderOptions, OpenOptions, Split, open};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args()
        .skip(1)
        .filter(|w| !w.starts_with("--"))
        .collect();
    let [data, split, threads] = &words[..] else {
        println!("give a data set, a split and a number of threads");
        return Ok(());
    };
    let split: Split = split.parse()?;
    let dataset = open(data, split, &OpenOptions::default())?;
    let mut options = match split {
        Split::Train => LoaderOptions::training(32, &dataset, 0, 0),
        Split::Test => LoaderOptions::evaluation(32),
    };
    options.threads = Some(threads.parse()?);
    let start = Instant::now();
    let mut loader = Loader::new(&dataset, options)?;
    let (mut images, mut sum) = (0, 0.0);
    while let Some(batch) = loader.next() {
        let batch = batch?;
        images += batch.len();
        sum += f64::from(batch.pixels[0]);
        loader.recycle(batch);
    }
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{:.1} images/s ({images} images, {sum:.3})",
        images as f64 / seconds
    );
    Ok(())
}
