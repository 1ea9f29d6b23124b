//! The gallery's cards.

use maud::{Markup, html};

use crate::figure::COLOURS;
use crate::gallery::{Adversarial, Card, CardModel};

/// The filters and the cards.
pub fn render(cards: &[Card]) -> Markup {
    let mut names: Vec<&str> = Vec::new();
    for model in cards.iter().flat_map(|card| &card.models) {
        if !names.contains(&model.name.as_str()) {
            names.push(&model.name);
        }
    }
    html! {
        form #filters .filters {
            label {
                "show "
                select name="show" {
                    option value="all" { "all images" }
                    option value="abstained" { "abstained" }
                    option value="wrong" { "wrong" }
                }
            }
            label {
                "by "
                select name="model" {
                    option value="any" { "any model" }
                    @for (at, name) in names.iter().enumerate() {
                        option value=(at) { (name) }
                    }
                }
            }
            label {
                "order "
                select name="order" {
                    option value="image" { "by image" }
                    option value="difference" { "largest difference between methods" }
                }
            }
            output name="count" { (cards.len()) " of " (cards.len()) " images" }
        }
        div #cards .cards { "\n"
            @for card in cards { (render_card(card, &names)) "\n" }
        }
    }
}

fn render_card(card: &Card, names: &[&str]) -> Markup {
    // Positions of the models for which something holds, for the filters.
    let holds = |test: fn(&CardModel) -> bool| -> String {
        let models = card.models.iter().filter(|model| test(model));
        let places = models.filter_map(|model| names.iter().position(|name| *name == model.name));
        places
            .map(|at| at.to_string())
            .collect::<Vec<_>>()
            .join(" ")
    };
    let idx = card.idx;
    html! {
        article.card data-idx=(idx) data-spread=(card.spread())
            data-abstained=(holds(CardModel::abstains)) data-wrong=(holds(CardModel::is_wrong)) {
            h3 { (card.data) " " (idx) " " span { "class " (card.label) } }
            div.pictures {
                (picture(&card.original, "original", &format!("original image {idx}")))
                @if let Some((uri, sigma)) = &card.noisy {
                    @let words = sigma.map_or("noisy".into(), |sigma| format!("noise σ = {sigma}"));
                    (picture(uri, &words, &format!("image {idx} under noise")))
                }
            }
            ul.models {
                @for model in &card.models { (render_model(model, idx)) }
            }
        }
    }
}

fn render_model(model: &CardModel, idx: u64) -> Markup {
    html! {
        li class={ "s" (model.style % COLOURS.len()) } {
            div {
                b.name { (model.name) }
                br;
                "says " b class=(mark(model.clean.1)) { (model.clean.0) }
                @if let Some(noisy) = &model.noisy { "; under this noise " (noisy) }
                "; " (certificate(model))
                @if let Some(bound) = model.l_bound { "; L-bound " (format!("{bound:.3}")) }
                @if let Some((attack, l2)) = &model.refuted {
                    " " b.wrong { "refuted by " (attack) " at " (format!("{l2:.3}")) }
                }
            }
            @for found in &model.adversarial { (attacked(found, &model.name, idx)) }
        }
    }
}

fn certificate(model: &CardModel) -> Markup {
    let Some(found) = &model.certificate else {
        return html! { "not certified" };
    };
    html! {
        @match &found.predict {
            Some(class) => {
                "certified " b class=(mark(found.correct)) { (class) }
                " to radius " (format!("{:.3}", found.radius))
            }
            None => b.abstained { "abstains" },
        }
    }
}

fn mark(right: bool) -> &'static str {
    if right { "right" } else { "wrong" }
}

/// What an attack made of the image, and what it changed.
fn attacked(found: &Adversarial, model: &str, idx: u64) -> Markup {
    let Adversarial {
        attack,
        predict,
        l2,
        ..
    } = found;
    html! {
        (picture(
            &found.picture,
            &format!("{attack}: {predict} at {l2:.3}"),
            &format!("image {idx} attacked by {attack} against {model}"),
        ))
        @if let Some((uri, factor)) = &found.difference {
            (picture(
                uri,
                &format!("difference ×{factor}"),
                &format!("what {attack} changed in image {idx}"),
            ))
        }
    }
}

fn picture(uri: &str, words: &str, alt: &str) -> Markup {
    html! {
        figure { img src=(uri) alt=(alt); figcaption { (words) } }
    }
}
