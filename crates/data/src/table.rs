//! Parquet tables with columns `image {bytes, path}` and `label`, as Hugging Face's
//! `datasets` writes them.
//!
//! Own code, for the sake of build time; a page is read when one of its images is asked for.
//! Plain and dictionary pages, uncompressed or by Snappy or gzip.

mod page;
mod schema;
mod thrift;

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use self::page::{Column, Page};
use self::schema::{Footer, footer};
use crate::at::ReadAt;
use crate::catalogue::OpenOptions;
use crate::dataset::Opened;
use crate::shards::{Found, numbered};
use crate::source::Files;
use crate::{DataError, Dataset, Split, Targets, decode};

/// Pages that are kept for the images beside the one that was asked for.
const KEPT_PAGES: usize = 8;
/// And how large they are in all, unless a single one is larger.
const KEPT_BYTES: usize = 128 << 20;

/// Images in pages of several files.
#[derive(Debug)]
struct Table {
    files: Vec<ReadAt>,
    pages: Vec<ImagePage>,
    /// Text of all names, and where each ends.
    names: String,
    ends: Vec<u64>,
    /// Pages that were read last, the newest at the end.
    recent: Mutex<Vec<(usize, Arc<Column>)>>,
}

#[derive(Debug)]
struct ImagePage {
    file: u32,
    first_row: u32,
    page: Page,
    dictionary: Option<Page>,
}

/// Whether the first images of a file have labels.
pub(crate) fn has_labels(path: &Path) -> Result<bool, DataError> {
    let file = ReadAt::open(path)?;
    let Footer { groups, .. } = footer(&file)?;
    let Some(label) = groups.first().and_then(|group| group.label.as_ref()) else {
        return Ok(false);
    };
    let labels = whole(&file, label)?;
    Ok(labels
        .iter()
        .all(|label| label.is_some_and(|label| label >= 0)))
}

/// The values of a column in one row group.
fn columns(file: &ReadAt, chunk: &page::ChunkPlace) -> Result<Vec<Column>, DataError> {
    let (dictionary, pages) = page::pages(file, chunk)?;
    let dictionary = dictionary.map(|page| page.read(file, None)).transpose()?;
    let read = |page: &Page| page.read(file, dictionary.as_ref());
    pages.iter().map(read).collect()
}

fn whole(file: &ReadAt, chunk: &page::ChunkPlace) -> Result<Vec<Option<i64>>, DataError> {
    let mut all = Vec::new();
    for column in columns(file, chunk)? {
        match column {
            Column::Whole(numbers) => all.extend(numbers),
            Column::Bytes { .. } => {
                return Err(DataError::format(&file.path, "its labels are no numbers"));
            }
        }
    }
    Ok(all)
}

/// Opens a folder of tables, or one table.
pub(crate) fn open(
    name: &str,
    folder: &Path,
    found: &Found,
    split: Split,
    options: &OpenOptions,
) -> Result<Dataset, DataError> {
    options.view.check()?;
    let mut table = Table {
        files: Vec::new(),
        pages: Vec::new(),
        names: String::new(),
        ends: Vec::new(),
        recent: Mutex::default(),
    };
    let (mut labels, mut names, mut paths) = (Vec::new(), Vec::new(), Vec::new());
    for path in found.of(split, name, folder)? {
        table.add(path, &mut labels, &mut names, &mut paths)?;
    }
    if paths.is_empty() {
        return Err(DataError::EmptyFolder {
            path: folder.to_path_buf(),
        });
    }
    let targets = match labels.iter().filter(|label| label.is_some()).count() {
        0 => Targets::Unknown,
        some if some < labels.len() => {
            let row = labels.iter().position(Option::is_none).unwrap_or(0);
            let what = format!("row {row} has no label and others do");
            return Err(DataError::format(folder, what));
        }
        _ => {
            let labels: Vec<u32> = labels.into_iter().flatten().collect();
            let most = labels.iter().max().map_or(0, |&most| most as usize + 1);
            if names.is_empty() {
                // Classes are numbered over both splits.
                let mut count = most;
                for path in found.train.iter().filter(|_| split == Split::Test) {
                    let file = ReadAt::open(path)?;
                    for group in footer(&file)?.groups {
                        let Some(label) = &group.label else { continue };
                        let top = whole(&file, label)?.into_iter().flatten().max();
                        count = count.max(top.map_or(0, |top| top.max(0) as usize + 1));
                    }
                }
                names = numbered(count);
            }
            if most > names.len() {
                let what = format!("label {} is beyond its {} classes", most - 1, names.len());
                return Err(DataError::format(folder, what));
            }
            Targets::Classes { names, labels }
        }
    };
    table.name_all(&paths, &targets);
    let opened = Opened {
        name,
        split,
        whole: found.whole,
        targets,
        files: Box::new(table),
    };
    opened.finish_beside(folder, options)
}

/// More classes than this are no classes.
const MAX_CLASSES: i64 = 1 << 20;

impl Table {
    /// Goes through a file: where its pages are, labels and paths.
    fn add(
        &mut self,
        path: &Path,
        labels: &mut Vec<Option<u32>>,
        names: &mut Vec<String>,
        paths: &mut Vec<Box<str>>,
    ) -> Result<(), DataError> {
        let file = ReadAt::open(path)?;
        let number = self.files.len() as u32;
        let about = footer(&file)?;
        if names.is_empty() {
            names.clone_from(&about.names);
        } else if !about.names.is_empty() && about.names != *names {
            let what = "its classes are others than those of the files before it";
            return Err(DataError::format(path, what));
        }
        for group in &about.groups {
            let (dictionary, pages) = page::pages(&file, &group.image)?;
            let mut first_row = paths.len() as u32;
            for page in pages {
                let values = page.values;
                self.pages.push(ImagePage {
                    file: number,
                    first_row,
                    page,
                    dictionary: dictionary.clone(),
                });
                first_row += values;
            }
            let rows = group.image.rows as usize;
            let begin = paths.len();
            if (begin + rows) as u64 > u64::from(u32::MAX) || rows as u64 > file.len {
                let what = format!("it claims {rows} images in {} bytes", file.len);
                return Err(DataError::format(path, what));
            }
            if let Some(chunk) = &group.path {
                for column in columns(&file, chunk)? {
                    if let Column::Bytes { all, rows } = column {
                        let text = |range: std::ops::Range<usize>| {
                            String::from_utf8_lossy(&all[range]).into_owned()
                        };
                        let rows = rows.into_iter();
                        paths.extend(rows.map(|range| {
                            let name = range.map(text).unwrap_or_default();
                            name.rsplit(['/', '\\']).next().unwrap_or_default().into()
                        }));
                    }
                }
            }
            paths.resize_with(begin + rows, Default::default);
            labels.truncate(begin);
            match &group.label {
                None => labels.resize(begin + rows, None),
                Some(chunk) => {
                    for label in whole(&file, chunk)? {
                        let label = match label {
                            None | Some(-1) => None,
                            Some(label @ 0..MAX_CLASSES) => Some(label as u32),
                            Some(label) => {
                                let what = format!("label {label} is no class");
                                return Err(DataError::format(path, what));
                            }
                        };
                        labels.push(label);
                    }
                }
            }
            if labels.len() != paths.len() {
                let what = "its columns have different numbers of rows";
                return Err(DataError::format(path, what));
            }
        }
        self.files.push(file);
        Ok(())
    }

    /// Calls every image by its class and its file's name; by its row if it has none.
    fn name_all(&mut self, paths: &[Box<str>], targets: &Targets) {
        for (row, path) in paths.iter().enumerate() {
            if let Targets::Classes { names, labels } = targets {
                self.names.push_str(&names[labels[row] as usize]);
                self.names.push('/');
            }
            match path.is_empty() {
                true => self.names.push_str(&format!("row-{row}")),
                false => self.names.push_str(path),
            }
            self.ends.push(self.names.len() as u64);
        }
    }

    fn row_name(&self, row: usize) -> &str {
        let begin = row.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.names[begin as usize..self.ends[row] as usize]
    }

    fn page_of(&self, row: usize) -> usize {
        let after = self
            .pages
            .partition_point(|page| page.first_row as usize <= row);
        after.saturating_sub(1)
    }

    /// The values of a page, from memory if it was read lately.
    fn column(&self, number: usize) -> Result<Arc<Column>, DataError> {
        let lock = || self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, column)) = lock().iter().find(|(page, _)| *page == number) {
            return Ok(column.clone());
        }
        let ImagePage {
            file,
            page,
            dictionary,
            ..
        } = &self.pages[number];
        let file = &self.files[*file as usize];
        let dictionary = dictionary.as_ref();
        let dictionary = dictionary.map(|page| page.read(file, None)).transpose()?;
        let column = Arc::new(page.read(file, dictionary.as_ref())?);
        let mut recent = lock();
        if recent.iter().all(|(page, _)| *page != number) {
            recent.push((number, column.clone()));
        }
        let size = |recent: &[(usize, Arc<Column>)]| {
            let sizes = recent.iter().map(|(page, _)| self.pages[*page].page.size());
            sizes.sum::<usize>()
        };
        while recent.len() > 1 && (recent.len() > KEPT_PAGES || size(&recent) > KEPT_BYTES) {
            recent.remove(0);
        }
        Ok(column)
    }
}

impl Files for Table {
    fn len(&self) -> usize {
        self.ends.len()
    }

    fn bytes(&self, index: usize) -> Result<Vec<u8>, DataError> {
        let page = self.page_of(index);
        let row = index - self.pages[page].first_row as usize;
        let bytes = match &*self.column(page)? {
            Column::Bytes { all, rows } => {
                let range = rows.get(row).cloned().flatten();
                range.map(|range| all[range].to_vec())
            }
            Column::Whole(_) => None,
        };
        let place = || self.place(index);
        let bytes = bytes.ok_or_else(|| DataError::format(place(), "it has no image"))?;
        decode::check_file_size(&place(), bytes.len() as u64)?;
        Ok(bytes)
    }

    fn place(&self, index: usize) -> PathBuf {
        let file = self.pages[self.page_of(index)].file as usize;
        self.files[file].path.join(self.row_name(index))
    }

    fn name(&self, index: usize) -> Cow<'_, [u8]> {
        self.row_name(index).as_bytes().into()
    }

    fn stamps(&self) -> Box<dyn Iterator<Item = PathBuf> + '_> {
        Box::new(self.files.iter().map(|file| file.path.clone()))
    }
}
