//! Every kind of row, as it stands on disk and as it comes back.

// Its log of certificates is not used here.
#[allow(dead_code)]
mod common;

use std::fs;
use std::time::Duration;

use common::manifest;
use heatsmooth_record::{
    AttackRow, CalibrationRow, CellError, Cells, CertifyRow, CleverRow, FidelityLevel, FidelityRow,
    LboundRow, LevelDistance, Line, Log, LogKind, Manifest, Row, Tsv,
};

/// Writes one row and gives the file's lines and the row as it reads again.
fn written<R: Row>(columns: &[impl AsRef<str>], row: &R) -> (String, R) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("F.tsv");
    let manifest = Manifest {
        kind: R::KIND,
        ..manifest(1)
    };
    let (mut log, _) = Log::open(&path, &manifest, columns).unwrap();
    log.append(row).unwrap();
    log.finish().unwrap();
    let mut rows: Vec<R> = Tsv::read(&path).unwrap().rows().unwrap();
    (fs::read_to_string(&path).unwrap(), rows.remove(0))
}

#[test]
fn certificates() {
    let row = CertifyRow {
        idx: 0,
        label: 8,
        predict: Some(8),
        radius: 0.3113963592182631,
        correct: true,
        time: Some(Duration::from_micros(4_763_068)),
        n_a: Some(9999),
        n: Some(10_000),
        p_lower: 0.9990770386693395,
        p_correct_l_bound: 0.9990770386693395,
        lecuyer: 0.05690314910063232,
        li: 0.25968338497318577,
        samples: Some(10_100),
        classify_time: Some(Duration::from_nanos(5_105_352)),
        clean_correct: Some(true),
        p_upper: 0.0004,
        prior: 0.97,
    };
    let (text, back) = written(&CertifyRow::columns(true, true), &row);
    assert_eq!(
        text,
        "idx\tlabel\tpredict\tradius\tcorrect\ttime\tn_a\tn\tp_lower\tp_correct_l_bound\t\
         lecuyer\tli\tsamples\tclassify_time\tclean_correct\tp_upper\tprior\n\
         0\t8\t8\t0.3113963592182631\t1\t0:00:04.763068\t9999\t10000\t0.9990770386693395\t\
         0.9990770386693395\t0.05690314910063232\t0.25968338497318577\t10100\t0.005105352\t1\t0.0004\t0.97\n"
    );
    assert_eq!(back, row);
}

#[test]
fn attacks() {
    let row = AttackRow {
        idx: 0,
        label: 3,
        clean_predict: Some(3),
        adv_predict: None,
        steps: 20,
        clean_correct: Some(false),
        last_l2: 4.0,
        ..AttackRow::default()
    };
    let (text, back) = written(&AttackRow::columns(false), &row);
    assert_eq!(
        text,
        "idx\tlabel\tclean_predict\tadv_predict\tsuccess\tl2\tlinf\tsteps\ttime\tclean_correct\t\
         last_l2\n0\t3\t3\t-1\t0\t\t\t20\t\t0\t4\n"
    );
    assert!(back.l2.is_nan() && back.last_l2 == 4.0 && back.target.is_none());
    assert!(!back.clean_right());
    let targeted = AttackRow {
        target: Some(7),
        ..row
    };
    let (text, back) = written(&AttackRow::columns(true), &targeted);
    assert!(text.contains("\tlast_l2\ttarget\n") && text.ends_with("\t4\t7\n"));
    assert_eq!(back.target, Some(7));
}

#[test]
fn l_bounds() {
    let row = LboundRow {
        idx: 0,
        label: 1,
        predict: 2,
        radius: -0.125,
        ..LboundRow::default()
    };
    let (text, back) = written(LboundRow::COLUMNS, &row);
    assert_eq!(
        text,
        "idx\tlabel\tpredict\tcorrect\tradius\tp_label\tp_other\ttime\tprobit\tone_pass\n\
         0\t1\t2\t0\t-0.125\t\t\t\t\t\n"
    );
    assert_eq!(back.radius, -0.125);
}

#[test]
fn clever_scores() {
    let row = CleverRow {
        idx: 5,
        label: 1,
        predict: 1,
        correct: true,
        target: 2,
        score: 0.25,
        margin: 2.5,
        slope: 10.0,
        shape: f64::INFINITY,
        scale: 0.5,
        ks: 0.125,
        time: Some(Duration::from_micros(1500)),
    };
    let (text, back) = written(CleverRow::COLUMNS, &row);
    assert_eq!(
        text,
        "idx\tlabel\tpredict\tcorrect\ttarget\tscore\tmargin\tslope\tshape\tscale\tks\ttime\n\
         5\t1\t1\t1\t2\t0.25\t2.5\t10\tinf\t0.5\t0.125\t0:00:00.001500\n"
    );
    assert_eq!(back, row);
}

#[test]
fn calibrations() {
    let row = CalibrationRow {
        idx: 5,
        label: 1,
        predict: 2,
        p: 0.875,
        one_pass: 0.25,
        g_predict: Some(2),
        g_radius: 0.125,
        n_a: Some(99),
        n: Some(100),
        p_lower: 0.75,
        time: Some(Duration::from_micros(1500)),
    };
    let (text, back) = written(CalibrationRow::COLUMNS, &row);
    assert_eq!(
        text,
        "idx\tlabel\tpredict\tp\tone_pass\tg_predict\tg_radius\tn_a\tn\tp_lower\ttime\n\
         5\t1\t2\t0.875\t0.25\t2\t0.125\t99\t100\t0.75\t0:00:00.001500\n"
    );
    assert_eq!(back, row);
}

#[test]
fn a_promise_misses_where_g_has_another_class_none_or_a_smaller_radius() {
    let row = |g_predict, g_radius| CalibrationRow {
        predict: 2,
        g_predict,
        g_radius,
        ..CalibrationRow::default()
    };
    let certified = row(Some(2), 0.25);
    assert!(!certified.misses(0.25) && certified.misses(0.26));
    for other in [row(Some(3), 0.25), row(None, 0.0)] {
        assert!(other.misses(0.01) && !other.misses(0.0));
    }
}

#[test]
fn fidelity() {
    let distance = |v_distance, standard_error, step| LevelDistance {
        v_distance,
        standard_error,
        step,
    };
    let row = FidelityRow {
        idx: 0,
        label: Some(3),
        v_distance: 3.5,
        f_distance: 3.25,
        standard_error: 0.125,
        agree: Some(false),
        levels: vec![
            FidelityLevel {
                sigma: 0.0,
                logits: distance(0.75, 0.0, 0.0),
                probabilities: distance(0.0625, 0.0, 0.0),
                votes: distance(0.375, 0.0, 0.0),
            },
            FidelityLevel {
                sigma: 0.30000000000000004,
                logits: distance(3.5, 0.125, 1.5),
                probabilities: distance(0.5, 0.03125, 0.25),
                votes: distance(0.5625, 0.015625, 0.1875),
            },
        ],
        f_agree: Some(false),
        p_f_distance: 0.6875,
        p_agree: Some(true),
        p_f_agree: Some(false),
        votes_f_distance: 0.8125,
        votes_agree: Some(true),
        votes_f_agree: Some(true),
    };
    let columns = FidelityRow::columns(&[0.0, 0.30000000000000004]);
    let (text, back) = written(&columns, &row);
    assert_eq!(
        text,
        "idx\tlabel\tv_distance\tf_distance\tstandard_error\tagree\t\
         v_distance@0\tstandard_error@0\tstep@0\tp_v_distance@0\tp_standard_error@0\tp_step@0\t\
         votes_v_distance@0\tvotes_standard_error@0\tvotes_step@0\t\
         v_distance@0.30000000000000004\tstandard_error@0.30000000000000004\t\
         step@0.30000000000000004\tp_v_distance@0.30000000000000004\t\
         p_standard_error@0.30000000000000004\tp_step@0.30000000000000004\t\
         votes_v_distance@0.30000000000000004\tvotes_standard_error@0.30000000000000004\t\
         votes_step@0.30000000000000004\t\
         f_agree\tp_f_distance\tp_agree\tp_f_agree\tvotes_f_distance\tvotes_agree\tvotes_f_agree\n\
         0\t3\t3.5\t3.25\t0.125\t0\t0.75\t0\t0\t0.0625\t0\t0\t0.375\t0\t0\t\
         3.5\t0.125\t1.5\t0.5\t0.03125\t0.25\t0.5625\t0.015625\t0.1875\t\
         0\t0.6875\t1\t0\t0.8125\t1\t1\n"
    );
    assert_eq!(back, row);
}

/// Logs of early versions and of other programs have fewer columns, or others.
#[test]
fn what_a_file_does_not_have_is_not_recorded_and_what_is_unknown_is_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("F.tsv");
    let text = "idx\tlabel\tv_distance\tf_distance\tstandard_error\tagree\tv_distance@0.1\t\
                v_distance@noon\tweather\n0\t9\t0.5\t2\t\t1\t0.75\tx\tsunny\n";
    fs::write(&path, text).unwrap();
    let rows: Vec<FidelityRow> = Tsv::read(&path).unwrap().rows().unwrap();
    let [row] = &rows[..] else { panic!("one row") };
    assert_eq!(row.levels.len(), 1);
    let level = row.levels[0];
    assert_eq!((level.sigma, level.logits.v_distance), (0.1, 0.75));
    assert!(level.logits.step.is_nan() && level.probabilities.v_distance.is_nan());
    assert!(row.f_agree.is_none() && row.p_f_distance.is_nan());
}

#[test]
fn a_cell_of_a_known_column_must_fit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("F.tsv");
    for (column, cell, reason) in [
        ("li", "x", "li: `x` is not a number"),
        (
            "samples",
            "1.5",
            "samples: expected a whole number, found `1.5`",
        ),
        (
            "classify_time",
            "-1",
            "classify_time: expected seconds, found `-1`",
        ),
        (
            "clean_correct",
            "yes",
            "clean_correct: expected 0 or 1, found `yes`",
        ),
    ] {
        let header = CertifyRow::COLUMNS[..6].join("\t");
        let text = format!("{header}\t{column}\n0\t3\t3\t0.2\t1\t0:00:01\t{cell}\n");
        fs::write(&path, text).unwrap();
        let rows = Tsv::read(&path).unwrap().rows::<CertifyRow>();
        let error = rows.unwrap_err().to_string();
        assert_eq!(error, format!("{}:2: {reason}", path.display()));
    }
}

/// A row type that this crate knows nothing of.
#[derive(Debug, PartialEq)]
struct Textured {
    idx: u64,
    texture: String,
}

impl Row for Textured {
    const KIND: LogKind = LogKind::own("texture");
    const COLUMNS: &'static [&'static str] = &["idx", "texture"];
    const REQUIRED: usize = 2;

    fn idx(&self) -> u64 {
        self.idx
    }

    fn read(cells: &Cells<'_>) -> Result<Self, CellError> {
        let texture = cells.text("texture").to_owned();
        if texture.is_empty() {
            return Err(CellError::new("texture", "expected a word"));
        }
        Ok(Self {
            idx: cells.integer("idx")?,
            texture,
        })
    }

    fn write(&self, line: &mut Line<'_>) {
        line.integer("idx", self.idx);
        line.text("texture", self.texture.as_str());
    }
}

#[test]
fn rows_of_ones_own() {
    let row = Textured {
        idx: 0,
        texture: "soft".into(),
    };
    let (text, back) = written(Textured::COLUMNS, &row);
    assert_eq!(text, "idx\ttexture\n0\tsoft\n");
    assert_eq!(back, row);
    let kind = serde_json::to_value(Textured::KIND).unwrap();
    assert_eq!(kind, "texture");
    assert_eq!(
        serde_json::from_value::<LogKind>(kind).unwrap(),
        Textured::KIND
    );
}
