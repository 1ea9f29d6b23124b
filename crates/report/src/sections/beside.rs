//! Published figures beside the logs, where they are asked for.

use record::LogKind;

use super::certified::{accuracy, curve, radius_columns};
use super::{Context, Item, Section, slug};
use crate::literature::PublishedResult;
use crate::options::Denominator;
use crate::table::{Best, Cell, Column, Format, Table};

/// One table for each data set.
pub fn section(context: &Context<'_>, published: &[PublishedResult]) -> Option<Section> {
    let mut data: Vec<&str> = published.iter().map(|one| one.data.as_str()).collect();
    data.dedup();
    let items: Vec<Item> = data
        .into_iter()
        .map(|data| {
            let of_data = published.iter().filter(|one| one.data == data);
            Item::Table(table(context, data, &of_data.collect::<Vec<_>>()))
        })
        .collect();
    (!items.is_empty()).then(|| Section {
        id: "beside".into(),
        title: "Beside published figures".into(),
        intro: "Figures from the literature, not measured here. Networks, training, images and \
                numbers of samples differ from those of the logs above, and so do the noise \
                levels: compare trends, not digits."
            .into(),
        items,
    })
}

fn table(context: &Context<'_>, data: &str, published: &[&PublishedResult]) -> Table {
    let mut radii: Vec<f64> = context.options.radii.clone();
    radii.extend(
        published
            .iter()
            .flat_map(|one| &one.certified)
            .map(|at| at.0),
    );
    radii.sort_by(f64::total_cmp);
    radii.dedup();
    let mut columns = vec![
        Column::text("model"),
        Column::new("σ", Format::Plain, Best::None),
    ];
    columns.extend(radius_columns(&radii, Best::None));
    columns.extend([
        Column::new("ACR", Format::Fixed(3), Best::None),
        Column::text("images"),
        Column::text("source"),
    ]);
    let wanted = |log: &crate::load::LoadedLog| {
        log.manifest.kind == LogKind::Certify
            && log.asked_radius().is_none()
            && log.top_k() == 1
            && log.manifest.data.name == data
    };
    let mut rows = Vec::new();
    for group in context.groups_of(true, wanted) {
        for (log, name) in group.logs.iter().zip(&group.names) {
            let curve = curve(log);
            let mut row = vec![Cell::Text(name.clone()), Cell::number(log.manifest.sigma)];
            let share = |radius: &f64| Cell::number(accuracy(&curve, *radius, Denominator::All));
            row.extend(radii.iter().map(share));
            row.extend([
                Cell::number(Some(curve.acr())),
                Cell::Text(curve.images.to_string()),
                Cell::Text("these logs".into()),
            ]);
            rows.push(row);
        }
    }
    for one in published {
        let at = |radius: &f64| {
            let mut found = one.certified.iter();
            Cell::number(found.find(|(at, _)| at == radius).map(|(_, share)| *share))
        };
        let mut row = vec![
            Cell::Text(format!("{}, {}", one.method, one.network)),
            Cell::Number(one.sigma),
        ];
        row.extend(radii.iter().map(at));
        row.extend([
            Cell::number(one.acr),
            Cell::Text(one.images.clone()),
            Cell::Text(one.source.clone()),
        ]);
        rows.push(row);
    }
    Table {
        id: format!("beside-{}", slug(data)),
        title: format!("Certified accuracy (%) beside published figures: {data}"),
        caption: "Share of all images that is right, not abstained on, and certified at least to \
                  the radius, and the average certified radius. Published shares are rounded to \
                  whole percent; an empty cell was not published or could not be verified."
            .into(),
        guarantee: "of these logs: as in the tables above; of published figures: as their authors \
                    computed them, for their smoothed classifiers, with noise in floating point"
            .into(),
        columns,
        rows,
    }
}
