//! Writes a Parquet table of images and labels in its plainest form: one row group, one
//! page a column, no compression, nothing optional.

use std::path::Path;

/// Thrift's compact protocol, from the front.
#[derive(Default)]
struct Thrift {
    bytes: Vec<u8>,
    last: Vec<i16>,
}

impl Thrift {
    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }

    fn zigzag(&mut self, number: i64) {
        self.varint(((number << 1) ^ (number >> 63)) as u64);
    }

    /// Fields are less than 15 apart everywhere here.
    fn field(&mut self, id: i16, kind: u8) {
        let last = self.last.last_mut().unwrap();
        self.bytes.push(((id - *last) as u8) << 4 | kind);
        *last = id;
    }

    fn whole(&mut self, id: i16, number: i64) {
        self.field(id, 6);
        self.zigzag(number);
    }

    fn word(&mut self, id: i16, number: i64) {
        self.field(id, 5);
        self.zigzag(number);
    }

    fn text(&mut self, id: i16, text: &str) {
        self.field(id, 8);
        self.raw_text(text);
    }

    fn raw_text(&mut self, text: &str) {
        self.varint(text.len() as u64);
        self.bytes.extend(text.as_bytes());
    }

    fn list(&mut self, id: i16, count: usize, kind: u8) {
        self.field(id, 9);
        assert!(count < 15);
        self.bytes.push((count as u8) << 4 | kind);
    }

    fn begin(&mut self) {
        self.last.push(0);
    }

    fn end(&mut self) {
        self.bytes.push(0);
        self.last.pop();
    }
}

/// A column: its place in the schema, its type (2: INT64, 6: BYTE_ARRAY), its plain values.
struct Column {
    path: &'static [&'static str],
    kind: i64,
    values: Vec<u8>,
}

fn bytes(values: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
    let with_length = |value: Vec<u8>| {
        let length = (value.len() as u32).to_le_bytes();
        length.into_iter().chain(value).collect::<Vec<u8>>()
    };
    values.flat_map(with_length).collect()
}

fn element(out: &mut Thrift, name: &str, kind: Option<i64>, children: i64) {
    out.begin();
    if let Some(kind) = kind {
        out.word(1, kind);
    }
    out.word(3, 0);
    out.text(4, name);
    if children > 0 {
        out.word(5, children);
    }
    out.end();
}

/// Writes images (label, name, content) with the names of their classes.
pub fn write(path: &Path, classes: &[&str], images: &[(usize, String, Vec<u8>)]) {
    let columns = [
        Column {
            path: &["image", "bytes"],
            kind: 6,
            values: bytes(images.iter().map(|image| image.2.clone())),
        },
        Column {
            path: &["image", "path"],
            kind: 6,
            values: bytes(images.iter().map(|image| image.1.clone().into_bytes())),
        },
        Column {
            path: &["label"],
            kind: 2,
            values: images
                .iter()
                .flat_map(|image| (image.0 as i64).to_le_bytes())
                .collect(),
        },
    ];
    let rows = images.len() as i64;
    let mut file = b"PAR1".to_vec();
    let mut places = Vec::new();
    for column in &columns {
        let size = column.values.len() as i64;
        let mut head = Thrift::default();
        head.begin();
        head.word(1, 0);
        head.word(2, size);
        head.word(3, size);
        head.field(5, 12);
        head.begin();
        head.word(1, rows);
        head.word(2, 0);
        head.word(3, 3);
        head.word(4, 3);
        head.end();
        head.end();
        places.push((file.len() as i64, head.bytes.len() as i64 + size));
        file.extend(&head.bytes);
        file.extend(&column.values);
    }
    let mut about = Thrift::default();
    about.begin();
    about.word(1, 1);
    about.list(2, 5, 12);
    element(&mut about, "schema", None, 2);
    element(&mut about, "image", None, 2);
    element(&mut about, "bytes", Some(6), 0);
    element(&mut about, "path", Some(6), 0);
    element(&mut about, "label", Some(2), 0);
    about.whole(3, rows);
    about.list(4, 1, 12);
    about.begin();
    about.list(1, columns.len(), 12);
    for (column, (at, size)) in columns.iter().zip(&places) {
        about.begin();
        about.whole(2, *at);
        about.field(3, 12);
        about.begin();
        about.word(1, column.kind);
        about.list(2, 1, 5);
        about.zigzag(0);
        about.list(3, column.path.len(), 8);
        column.path.iter().for_each(|part| about.raw_text(part));
        about.word(4, 0);
        about.whole(5, rows);
        about.whole(6, *size);
        about.whole(7, *size);
        about.whole(9, *at);
        about.end();
        about.end();
    }
    about.whole(2, file.len() as i64);
    about.whole(3, rows);
    about.end();
    let names = serde_json::json!({"info": {"features": {"label": {"names": classes}}}});
    about.list(5, 1, 12);
    about.begin();
    about.text(1, "huggingface");
    about.text(2, &names.to_string());
    about.end();
    about.end();
    file.extend(&about.bytes);
    file.extend((about.bytes.len() as u32).to_le_bytes());
    file.extend(b"PAR1");
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, file).unwrap();
}
