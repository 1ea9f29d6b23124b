//! The gallery's cards.

use std::fmt::Write;

use super::escape;
use crate::figure::COLOURS;
use crate::gallery::{Card, CardModel};

/// The filters and the cards.
pub fn render(cards: &[Card]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for model in cards.iter().flat_map(|card| &card.models) {
        if !names.contains(&model.name.as_str()) {
            names.push(&model.name);
        }
    }
    let mut options = String::new();
    for (at, name) in names.iter().enumerate() {
        let _ = write!(options, "<option value=\"{at}\">{}</option>", escape(name));
    }
    let mut out = format!(
        "<form class=\"filters\" id=\"filters\">\n\
         <label>show <select name=\"show\"><option value=\"all\">all images</option>\
         <option value=\"abstained\">abstained</option><option value=\"wrong\">wrong</option></select></label>\n\
         <label>by <select name=\"model\"><option value=\"any\">any model</option>{options}</select></label>\n\
         <label>order <select name=\"order\"><option value=\"image\">by image</option>\
         <option value=\"difference\">largest difference between methods</option></select></label>\n\
         <output name=\"count\">{count} of {count} images</output>\n</form>\n<div class=\"cards\" id=\"cards\">\n",
        count = cards.len()
    );
    for card in cards {
        out.push_str(&render_card(card, &names));
    }
    out.push_str("</div>\n");
    out
}

fn render_card(card: &Card, names: &[&str]) -> String {
    // Positions of the models for which something holds, for the filters.
    let holds = |test: fn(&CardModel) -> bool| -> String {
        let models = card.models.iter().filter(|model| test(model));
        let places = models.filter_map(|model| names.iter().position(|name| *name == model.name));
        places
            .map(|at| at.to_string())
            .collect::<Vec<_>>()
            .join(" ")
    };
    let mut out = format!(
        "<article class=\"card\" data-idx=\"{}\" data-spread=\"{}\" data-abstained=\"{}\" \
         data-wrong=\"{}\">\n<h3>{} {} <span>class {}</span></h3>\n<div class=\"pictures\">{}",
        card.idx,
        card.spread(),
        holds(CardModel::abstains),
        holds(CardModel::is_wrong),
        escape(&card.data),
        card.idx,
        escape(&card.label),
        picture(
            &card.original,
            "original",
            &format!("original image {}", card.idx)
        ),
    );
    if let Some((uri, sigma)) = &card.noisy {
        let words = sigma.map_or("noisy".to_owned(), |sigma| format!("noise σ = {sigma}"));
        out.push_str(&picture(
            uri,
            &words,
            &format!("image {} under noise", card.idx),
        ));
    }
    out.push_str("</div>\n<ul class=\"models\">\n");
    for model in &card.models {
        out.push_str(&render_model(model, card.idx));
    }
    out.push_str("</ul>\n</article>\n");
    out
}

fn render_model(model: &CardModel, idx: u64) -> String {
    let mark = |right: bool| if right { "right" } else { "wrong" };
    let mut facts = vec![format!(
        "says <b class=\"{}\">{}</b>",
        mark(model.clean.1),
        escape(&model.clean.0)
    )];
    if let Some(noisy) = &model.noisy {
        facts.push(format!("under this noise {}", escape(noisy)));
    }
    match &model.certificate {
        Some(found) => facts.push(match &found.predict {
            Some(class) => format!(
                "certified <b class=\"{}\">{}</b> to radius {:.3}",
                mark(found.correct),
                escape(class),
                found.radius
            ),
            None => "<b class=\"abstained\">abstains</b>".into(),
        }),
        None => facts.push("not certified".into()),
    }
    if let Some(bound) = model.l_bound {
        facts.push(format!("L-bound {bound:.3}"));
    }
    let mut pictures = String::new();
    for found in &model.adversarial {
        let words = format!("{}: {} at {:.3}", found.attack, found.predict, found.l2);
        let alt = format!(
            "image {idx} attacked by {} against {}",
            found.attack, model.name
        );
        pictures.push_str(&picture(&found.picture, &words, &alt));
        if let Some((uri, factor)) = &found.difference {
            let words = format!("difference ×{factor}");
            let alt = format!("what {} changed in image {idx}", found.attack);
            pictures.push_str(&picture(uri, &words, &alt));
        }
    }
    format!(
        "<li class=\"s{}\"><div><b class=\"name\">{}</b><br>{}</div>{pictures}</li>\n",
        model.style % COLOURS.len(),
        escape(&model.name),
        facts.join("; ")
    )
}

fn picture(uri: &str, words: &str, alt: &str) -> String {
    format!(
        "<figure><img src=\"{uri}\" alt=\"{}\"><figcaption>{}</figcaption></figure>",
        escape(alt),
        escape(words)
    )
}
