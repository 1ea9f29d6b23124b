//! No bytes whatsoever make a reader panic.

use std::fs;

use heatsmooth_record::{
    AttackRow, CertifyRow, FidelityRow, Gallery, LboundRow, Manifest, Row, RunManifest, Tsv,
};
use proptest::prelude::*;

fn read_all(bytes: &[u8]) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("F.tsv");
    fs::write(&path, bytes).unwrap();
    if let Ok(table) = Tsv::read(&path) {
        let _ = table.rows::<CertifyRow>();
        let _ = table.rows::<AttackRow>();
        let _ = table.rows::<LboundRow>();
        let _ = table.rows::<FidelityRow>();
        let _ = table.numbers();
        assert!(table.torn().is_none() == (bytes.last() == Some(&b'\n')));
    }
    assert!(Manifest::read(&path).is_err());
    assert!(RunManifest::read(&path).is_err());
    assert!(Gallery::read(&path).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_bytes(bytes: Vec<u8>) {
        read_all(&bytes);
    }

    #[test]
    fn any_cells_under_a_good_header(cells in prop::collection::vec("[-0-9.e:]{0,8}|nan|inf|\\PC{0,5}", 1..40)) {
        let fixed = [CertifyRow::COLUMNS, AttackRow::COLUMNS, LboundRow::COLUMNS].map(<[_]>::to_vec);
        let levels = FidelityRow::columns(&[0.25, 0.5]);
        let levels: Vec<&str> = levels.iter().map(String::as_str).collect();
        for columns in fixed.into_iter().chain([AttackRow::columns(true), levels]) {
            let mut text = columns.join("\t") + "\n";
            for row in cells.chunks(columns.len()) {
                text += &(row.join("\t") + "\n");
            }
            read_all(text.as_bytes());
        }
    }
}
