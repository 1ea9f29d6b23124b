//! `heatsmooth data`: list, fetch, verify and pack data sets.

use std::cell::RefCell;
use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, FromArgMatches as _, Subcommand};
use heatsmooth::data::{
    self, BrokenImages, FetchOptions, OddImages, PackOptions, Split, State, View,
};
use heatsmooth::{Error, Observer, Registry};
use serde_json::json;

use crate::Entry;
use crate::common::{Common, with_common};
use crate::output;
use crate::progress::Terminal;

/// `heatsmooth data`.
pub const ENTRY: Entry = Entry {
    name: "data",
    command: |command, _| with_common(Flags::augment_args(command)),
    run: |matches, registry| {
        run(
            &Flags::from_arg_matches(matches)?,
            &Common::of(matches)?,
            registry,
        )
    },
};

/// Data sets: what is there, fetch one, verify one, pack one.
#[derive(Args, Debug)]
#[command(after_help = "Example: heatsmooth data fetch cifar10 && heatsmooth data verify cifar10")]
pub struct Flags {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// All known data sets and whether they are there.
    #[command(after_help = "Example: heatsmooth data list")]
    List {
        #[command(flatten)]
        root: Root,
    },
    /// Bring a data set to this machine and verify it.
    #[command(after_help = "Example: heatsmooth data fetch cifar10 --from cifar-10-binary.tar.gz")]
    Fetch {
        /// The data set.
        name: String,
        /// A local archive or folder instead of the network.
        #[arg(long, value_name = "PATH")]
        from: Option<PathBuf>,
        #[command(flatten)]
        root: Root,
    },
    /// Check every file of a data set.
    #[command(after_help = "Example: heatsmooth data verify ./my-images")]
    Verify {
        /// The data set, or a folder or file of images.
        name: String,
        #[command(flatten)]
        root: Root,
    },
    /// Decode and resize all images once, so that later epochs read them at the speed of
    /// memory. Running it again continues where it stopped.
    #[command(
        after_help = "Example: heatsmooth data pack imagenet --out imagenet-packed\n\
                            Then: heatsmooth certify --data imagenet-packed ..."
    )]
    Pack {
        /// The data set, or a folder or file of images.
        name: String,
        /// Where the packed images go.
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
        /// Shape of the network's inputs, as 224x224x3; from 128 pixels on, whole images
        /// are kept with a margin of an eighth around the crop.
        #[arg(long, value_name = "SHAPE", default_value = "224x224x3")]
        input: String,
        /// Only this part, train or test [default: all there are].
        #[arg(long)]
        split: Option<Split>,
        /// Image files that cannot be decoded: refuse or skip.
        #[arg(long, default_value = "refuse")]
        broken: BrokenImages,
        /// Image files in CMYK or 16 bits, or of another format or class than their names
        /// say: convert (to 8 bits of RGB), skip or refuse.
        #[arg(long, default_value = "convert")]
        odd: OddImages,
        #[command(flatten)]
        root: Root,
    },
}

#[derive(Args, Debug)]
struct Root {
    /// The folder of data sets [default: $HEATSMOOTH_DATA, or the platform's data directory].
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
}

fn run(flags: &Flags, common: &Common, _: &Registry) -> Result<()> {
    // Decoding uses all threads that the options allow.
    common.device()?;
    match &flags.action {
        Action::List { root } => list(common, root),
        Action::Fetch { name, from, root } => fetch(common, name, from.clone(), root),
        Action::Verify { name, root } => verify(common, name, root),
        Action::Pack {
            name,
            out,
            input,
            split,
            broken,
            odd,
            root,
        } => {
            let options = PackOptions {
                root: root.root.clone(),
                view: View::for_shape(heatsmooth::parse_shape(input)?),
                broken: *broken,
                odd: *odd,
                split: *split,
            };
            pack(common, name, out, &options)
        }
    }
}

fn list(common: &Common, root: &Root) -> Result<()> {
    let entries = data::list(root.root.as_deref()).map_err(Error::from)?;
    let mut text = String::new();
    let mut value = Vec::new();
    for entry in &entries {
        let state = match &entry.state {
            State::Embedded => "embedded".to_string(),
            State::Present => "present".into(),
            State::Absent(_) if entry.fetchable => "absent, can be fetched".into(),
            State::Absent(_) => "absent".into(),
        };
        let path = entry.path.as_ref().map(|p| p.display().to_string());
        text += &format!("{:23} {:24} {}\n", entry.name, state, entry.about);
        if let Some(path) = &path {
            text += &format!("{:23} {path}\n", "");
        }
        value.push(json!({"name": entry.name, "state": state, "about": entry.about, "path": path}));
    }
    output::summary(common, &json!(value), &text)
}

fn fetch(common: &Common, name: &str, from: Option<PathBuf>, root: &Root) -> Result<()> {
    let observer = Download {
        state: RefCell::new((common.terminal(), 0)),
        unit: "bytes",
    };
    let options = FetchOptions {
        root: root.root.clone(),
        from,
    };
    let fetched = data::fetch(name, &options, &observer).map_err(Error::from)?;
    let path = fetched.path.display().to_string();
    let source = fetched.source.as_deref();
    let text = match source {
        Some(source) => format!("{name}: fetched from {source} into {path}, verified"),
        None => format!("{name}: already there, {path}"),
    };
    output::summary(
        common,
        &json!({"name": name, "path": path, "source": source}),
        &text,
    )
}

fn verify(common: &Common, name: &str, root: &Root) -> Result<()> {
    let splits = data::verify(name, root.root.as_deref()).map_err(Error::from)?;
    let mut text = String::new();
    let mut value = Vec::new();
    for s in &splits {
        text += &format!(
            "{name} {}: {} images, sha256 {}: whole\n",
            s.split, s.len, s.hash
        );
        for finding in &s.odd {
            text += &format!("  {finding}\n");
        }
        let odd: Vec<String> = s.odd.iter().map(ToString::to_string).collect();
        value.push(json!({"split": s.split, "images": s.len, "sha256": s.hash, "odd": odd}));
    }
    output::summary(common, &json!({"name": name, "splits": value}), &text)
}

fn pack(common: &Common, name: &str, out: &std::path::Path, options: &PackOptions) -> Result<()> {
    let observer = Download {
        state: RefCell::new((common.terminal(), 0)),
        unit: "images",
    };
    let packed = data::pack(name, out, options, &observer).map_err(Error::from)?;
    observer.state.borrow_mut().0.end();
    let (mut text, mut value) = (String::new(), Vec::new());
    for s in &packed {
        text += &format!(
            "{name} {}: {} images in {} ({:.1} MB), sha256 {}\n",
            s.split,
            s.len,
            out.display(),
            s.bytes as f64 / 1e6,
            s.hash
        );
        for finding in &s.left_out {
            text += &format!("  left out: {finding}\n");
        }
        let left_out: Vec<String> = s.left_out.iter().map(ToString::to_string).collect();
        value.push(json!({
            "split": s.split, "images": s.len, "bytes": s.bytes, "sha256": s.hash,
            "left_out": left_out,
        }));
    }
    let out = out.display().to_string();
    output::summary(
        common,
        &json!({"name": name, "out": out, "splits": value}),
        &text,
    )
}

/// Shows what arrives: where, and how much so far.
struct Download {
    state: RefCell<(Terminal, u64)>,
    /// What is counted.
    unit: &'static str,
}

impl data::Observer for Download {
    fn begin(&self, what: &str, bytes: Option<u64>) {
        let (terminal, done) = &mut *self.state.borrow_mut();
        *done = 0;
        terminal.end();
        terminal.begin(what, bytes.unwrap_or(0), 0);
    }

    fn advance(&self, bytes: u64) {
        let (terminal, done) = &mut *self.state.borrow_mut();
        *done += bytes;
        let _ = terminal.progress(*done, &|| self.unit.into());
    }

    fn note(&self, message: &str) {
        self.state.borrow_mut().0.note(message);
    }
}
